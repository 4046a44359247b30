// Sends an alert to the platform API (POST /api/admin/system-alert), which stores and mails it.
import type { Alert } from "./alert.ts";

export interface ApiAddress {
  readonly url: string;
  /** A token of kind service. */
  readonly token: string;
}

// The API waits at most 10 s for the mail server.
const ANSWER_MS = 15_000;

/** Returns true if the alert's mail was taken. Rejects if the API cannot be reached or refuses. */
export const sendToApi = async ({ url, token }: ApiAddress, alert: Alert): Promise<boolean> => {
  const answer = await fetch(`${url.replace(/\/$/, "")}/api/admin/system-alert`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(alert),
    redirect: "error",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  // A proxy between us and the API may answer with its own page.
  const content = (await answer.json().catch(() => ({}))) as { mailed?: boolean; detail?: string };
  if (answer.status !== 202)
    throw new Error(`the platform API answered ${answer.status}: ${content.detail ?? "no reason"}`);
  return content.mailed === true;
};
