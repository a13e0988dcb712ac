/** Shells with completion. */
export const SHELLS = ["bash", "zsh", "fish"] as const;
/** A shell with completion. */
export type Shell = (typeof SHELLS)[number];

/** The completion script of a shell. It calls `holdfast __complete`, so it always fits the installed version. */
export function completionScript(shell: Shell): string {
  return SCRIPTS[shell];
}

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# Completion of holdfast for bash. Add to ~/.bashrc: source <(holdfast completion bash)
_holdfast() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}")
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <("\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _holdfast holdfast`,

  zsh: `#compdef holdfast
# Completion of holdfast for zsh. Add to ~/.zshrc, after compinit: source <(holdfast completion zsh)
_holdfast() {
  local line word
  local -a candidates
  for line in "\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == ":files" ]]; then
      [[ $PREFIX == --*=* ]] && compset -P 1 '*='
      _files
      return
    fi
    word="\${line%%$'\\t'*}"
    [[ -z $word ]] && continue
    if [[ $line == *$'\\t'* ]]; then
      candidates+=("\${word//:/\\\\:}:\${line#*$'\\t'}")
    else
      candidates+=("\${word//:/\\\\:}")
    fi
  done
  _describe holdfast candidates
}
if [[ "\${funcstack[1]}" == "_holdfast" ]]; then
  _holdfast
else
  compdef _holdfast holdfast
fi`,

  fish: `# Completion of holdfast for fish. Run once: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
function __holdfast_complete
  set -l current (string replace -r '^["\\']' '' -- (commandline -ct))
  set -l before (commandline -opc)
  set -l command $before[1]
  set -e before[1]
  for line in ($command __complete $before "$current" 2>/dev/null)
    if test "$line" = ":files"
      set -l flag (string match -r '^--[^=]+=' -- "$current")
      set -l path (string replace -r '^--[^=]+=' '' -- "$current")
      printf '%s\\n' "$flag"(__fish_complete_path "$path")
    else
      printf '%s\\n' $line
    end
  end
end
complete -c holdfast -f -k -a '(__holdfast_complete)'`,
};
