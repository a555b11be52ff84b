#compdef everflow
# Completion of everflow for zsh. The program itself says what fits.
_everflow() {
    local -a fitting
    fitting=("${(@f)$(everflow __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$fitting" ]]; then
        compadd -a fitting
    else
        _files
    fi
}
if [[ "$funcstack[1]" = "_everflow" ]]; then
    _everflow "$@"
else
    compdef _everflow everflow
fi
