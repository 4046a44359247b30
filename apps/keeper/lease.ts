// Renews the lease of a piece of work for as long as this process works on it.

export interface RenewedLease {
  /** True once another process has taken the work over. */
  readonly isLost: () => boolean;
  readonly stop: () => void;
}

/**
 * Renews three times a lease. Only a renewal that throws `Lost` loses it: any other failure may be
 * over before the lease ends.
 */
export const keepLease = (
  renew: () => Promise<void>,
  leaseMs: number,
  Lost: abstract new (...given: never[]) => Error,
): RenewedLease => {
  let isLost = false;
  const renewing = setInterval(() => {
    renew().catch((error) => {
      isLost ||= error instanceof Lost;
    });
  }, leaseMs / 3);
  return { isLost: () => isLost, stop: () => clearInterval(renewing) };
};
