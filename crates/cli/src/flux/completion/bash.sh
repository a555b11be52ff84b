# Completion of everflow for bash. The program itself says what fits.
_everflow() {
    local IFS=$'\n'
    COMPREPLY=($(everflow __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _everflow everflow
