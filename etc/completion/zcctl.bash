# Completion of zcctl for bash: zcctl itself knows what can stand where (zcctl __complete).

_zcctl() {
  local i word current="" candidate glued="" words=()
  # bash splits words at '=' and ':'; zcctl gets them whole.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && [[ $word == [=:] || $glued ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    [[ $word == [=:] ]] && glued=yes || glued=""
  done
  current=${words[-1]}
  COMPREPLY=()
  while IFS= read -r candidate; do
    candidate=${candidate%%$'\t'*}
    if [[ $candidate == :files ]]; then
      current=${current#*=}
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
    fi
    # What stands before the last '=' or ':' is a word of its own to bash.
    [[ $current == *[=:]* ]] && candidate=${candidate#"${current%"${current##*[=:]}"}"}
    COMPREPLY+=("$candidate")
  done < <("$1" __complete "${words[@]}" 2>/dev/null)
}
complete -F _zcctl zcctl
