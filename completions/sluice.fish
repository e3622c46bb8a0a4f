# SPDX-License-Identifier: Apache-2.0
# fish completion for sluice. The words come from the program itself, so they are never out of date.
function __sluice_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l words $words "$current"
    for line in (command sluice completion words -- (math (count $words) - 1) $words 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
            return
        end
        echo $line
    end
end
complete -c sluice -f -a '(__sluice_words)'
