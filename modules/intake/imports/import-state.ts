// The states of an import, and the ways in which its file can arrive.
export const importStates = [
  ...(["pending_upload", "queued", "processing", "completed", "completed_with_errors"] as const),
  ...(["failed", "cancelled"] as const),
] as const;
export type ImportState = (typeof importStates)[number];
export type ImportSource = "put" | "v3" | "fast";
