/**
 * Words that this project no longer uses, with the term that took their place. One term per concept: a reader who searches
 * for it finds every place. Only the changelog may still have them.
 */
export const RETIRED: readonly (readonly [term: RegExp, instead: string])[] = [
  [/\b(?:laid|lays?|laying) (?:it |them )?down\b/i, "dead-letter, cancel or settle without running"],
  [/\b(?:lays?|laid|puts?) (?:it |them )?aside\b/i, "defer"],
  [/\b(?:tells?|told|untold)\b/i, "log, emit, print, report or return"],
  [/\bhears?(?: of)?\b|\bheard\b/i, "receive; has listeners"],
  [/\bdeeds?\b/i, "audit entry"],
  [/\bdoors?\b/i, "authenticator"],
  [/\brooms?\b/i, "capacity, space"],
  [/(?<!Math\.)\bfloors?\b(?!\()/i, "scan cursor"],
  [/\blookouts?\b/i, "WAL watcher"],
  [/\bunder ?way\b/i, "in progress, in flight, running"],
  [/\bupkeep\b|\btid(?:y|ies)\b|\bkeeps? house\b/i, "maintenance"],
  [/\b(?:whoever|somebody|anybody|(?<!")nobody)\b/i, "caller, another process, another transaction, no one"],
  [/\bas good as\b/i, "say what happens"],
  // In quotes it is a value that earlier versions stored.
  [/(?<!["'])\bby hand\b/i, "manually, manual"],
  [/\b(?:makes?|made|making) up for\b/i, "catch up"],
  [/\b(?:goes|go|went|going) dead\b/i, "is dead-lettered, becomes dead"],
  [/\b(?:runs?|ran|running) out\b(?! of)/i, "expire"],
  [/\bcounts? for (?:more|nothing)\b/i, "override; is ignored"],
  [/\bat one moment\b/i, "in one snapshot"],
  [/\bwritten down\b/i, "recorded"],
  [/\bclear(?:s|ed)? away\b/i, "delete, purge"],
  [/\bworthless\b/i, "revoked, expired"],
  [/\bbe they\b/i, "including"],
  [/\bsource of chance\b/i, "random source"],
  [/\b(?:answers?|answered|answering)\b/i, "result, response; return, respond"],
  [/\ba text\b(?! (?:block|column|file|format))|\btexts? that\b/i, "string"],
];

/** The retired terms in a line of code or prose. Identifiers are read word by word: `auditDeed` has "Deed". */
export function retiredTermsIn(line: string): { term: string; instead: string }[] {
  const words = line.replaceAll(/(?<=[a-z])(?=[A-Z])|_/g, " ");
  return RETIRED.flatMap(([pattern, instead]) => {
    const term = (pattern.exec(line) ?? pattern.exec(words))?.[0];
    return term === undefined ? [] : [{ term, instead }];
  });
}
