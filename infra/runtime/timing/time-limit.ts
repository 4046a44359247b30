// Limits how long an answer is waited for.

/**
 * Settles like `work`; after `ms` rejects with `late`. The work itself does not end then, and its
 * later result is ignored.
 */
export const within = async <T>(ms: number, work: Promise<T>, late: string): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(late)), ms);
  });
  // It may fail after the limit, when no caller waits for it.
  work.catch(() => undefined);
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
};
