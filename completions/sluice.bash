# SPDX-License-Identifier: Apache-2.0
# bash completion for sluice. The words come from the program itself, so they are never out of date.
# Try it: source <(sluice completion bash)
_sluice() {
    local word remark i before= at=0
    local -a typed
    COMPREPLY=()
    # bash splits words at = and : and completes the last part; this joins them again
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i - 1]} == *[=:] ]]; then
            before=${typed[at - 1]}
            typed[at - 1]+=${COMP_WORDS[i]}
            [[ ${COMP_WORDS[i]} != [=:]* ]] || before=${typed[at - 1]}
        else
            before=
            typed[at++]=${COMP_WORDS[i]}
        fi
    done
    while IFS=$'\t' read -r word remark; do
        if [[ $word == :files ]]; then
            compopt -o default
            COMPREPLY=()
            return
        fi
        COMPREPLY+=("${word#"$before"}")
    done < <("${COMP_WORDS[0]}" completion words -- $((at - 1)) "${typed[@]}" 2>/dev/null)
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}
complete -F _sluice sluice
