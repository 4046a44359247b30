// Asks an HTTP server whether it is well.

/** Resolves when `url` answers 2xx within a second; otherwise rejects with the status or the reason. */
export async function answersHttp(url: string): Promise<void> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(1_000) });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
}
