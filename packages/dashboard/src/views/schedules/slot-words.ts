/** Why a slot became no job, or a late one. Null: it became a job on time. */
export function reasonWords(reason: string | null): string | null {
  switch (reason) {
    case null:
      return null;
    case "late":
      return "late: no scheduler ran at its time";
    case "manual":
      return "run manually";
    case "missed":
      return "missed: no scheduler ran at its time";
    case "overlap":
      return "skipped: an earlier run was not finished";
    default:
      return reason.startsWith("refused: ") ? `not stored: ${reason.slice(9)}` : reason;
  }
}
