// A limit on how long an answer is waited for.

/**
 * What `work` resolves or rejects with; after `ms` rejects with `late`. The work itself is not
 * ended by that, and what it does later is not heard.
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
