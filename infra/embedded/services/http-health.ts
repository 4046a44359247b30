// Checks whether an HTTP server of this machine is healthy.
import { get as getPlain } from "node:http";
import { get as getSecure } from "node:https";

/**
 * Resolves when `url` answers 2xx within a second; otherwise rejects with the status or the reason.
 */
export function answersHttp(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // We started the server ourselves and ask it on the loopback; its certificate has the name by
    // which others call it.
    const get = url.startsWith("https:") ? getSecure : getPlain;
    const asked = get(url, { rejectUnauthorized: false, timeout: 1_000, agent: false }, (answer) => {
      answer.resume();
      const status = answer.statusCode ?? 0;
      if (status >= 200 && status < 300) resolve();
      else reject(new Error(`${url} answered ${status}`));
    });
    asked.once("timeout", () => asked.destroy(new Error(`${url} did not answer within a second`)));
    asked.once("error", reject);
  });
}
