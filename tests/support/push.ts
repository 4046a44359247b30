// Pushes leads as a client's server does: the bytes and their signature.
import { createHmac } from "node:crypto";
import type { Answer, Asked } from "./ask.ts";

type Ask = (path: string, asked?: Asked) => Promise<Answer>;
export interface Signer {
  readonly id: number;
  readonly secret: string;
}
/** Parts of a request that differ from a correct one. */
interface Wrong {
  readonly signature?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
}

export const signatureOf = (secret: string, body: string | Uint8Array): string =>
  createHmac("sha256", secret).update(body).digest("hex");

export const pusher =
  (ask: Ask) =>
  (client: Signer, lead: unknown, wrong: Wrong = {}): Promise<Answer> => {
    const body = typeof lead === "string" || lead instanceof Uint8Array ? lead : JSON.stringify(lead);
    const { signature = signatureOf(client.secret, body), headers, query = `client_id=${client.id}` } = wrong;
    return ask(`/api/pixel/lead-submission?${query}`, {
      method: "POST",
      body,
      headers: { ...(signature !== null && { "x-svc-signature": signature }), ...headers },
    });
  };
