# SPDX-License-Identifier: Apache-2.0
# bash completion for sluice. The words come from the program itself, so they are never out of date.
# Try it: source <(sluice completion bash)
_sluice() {
    local word remark
    COMPREPLY=()
    while IFS=$'\t' read -r word remark; do
        if [[ $word == :files ]]; then
            compopt -o default
            COMPREPLY=()
            return
        fi
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" completion words -- "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
}
complete -F _sluice sluice
