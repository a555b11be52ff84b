# Completion of everflow for fish. The program itself says what fits.
function __everflow_complete
    set -l words (commandline -opc) (commandline -ct)
    everflow __complete -- $words[2..-1] 2>/dev/null
end
complete -c everflow -a '(__everflow_complete)'
