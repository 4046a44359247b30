// Records the secrets that an installation uses, by fingerprint only, and the pepper, which no
// process may change.
import type pg from "pg";
import { derive } from "../../../domain/hmac.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import { type Clock, retry, systemClock } from "../../../infra/runtime/timing/retry.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** 16 hex digits that identify a secret without revealing any of it. */
export const fingerprintOf = (secret: string): string => derive(secret, "fingerprint").toString("hex").slice(0, 16);

/**
 * The pepper of this process differs from the installation's. Every device would get a new
 * identity.
 */
export class WrongPepper extends Error {
  readonly verdict = "fatal";
  constructor(given: string, kept: string) {
    super(
      `TRIBUTARY_SECRET: the last secret of the list has the fingerprint ${given}, and identifiers of this ` +
        `installation are hashed under ${kept}: keep that one as the last of the list, as pepper:<secret> where it ` +
        "must not sign any more (docs/runbooks/rotate-secrets.md)",
    );
    this.name = "WrongPepper";
  }
}

/** Limits the list of processes, because container names change; the longest silent go first. */
const HOLDERS_KEPT = 500;

export const pepperIn = async (tx: pg.PoolClient): Promise<string | undefined> =>
  (await tx.query<{ fingerprint: string }>("select fingerprint from installation_secrets where is_pepper")).rows[0]
    ?.fingerprint;

/** How often a process reports that it is running. */
const REPORT_MS = 60_000;

/**
 * Records that this process is running, and its secrets. The first process of an installation sets
 * the pepper. Throws WrongPepper without recording anything.
 */
export const recordSecrets = (pool: pg.Pool, instance: string, keyring: Keyring): Promise<void> => {
  const pepper = fingerprintOf(keyring.pepper);
  const accepted = keyring.accepted.map(fingerprintOf);
  return transaction(pool, null, async (tx) => {
    await tx.query(sql`insert into installation_secrets (fingerprint, is_pepper) values (${pepper}, true)
      on conflict do nothing`);
    const kept = await pepperIn(tx);
    if (kept !== pepper) throw new WrongPepper(pepper, kept ?? "none");
    await tx.query(sql`insert into installation_secrets (fingerprint) select unnest(${accepted}::text[])
      on conflict do nothing`);
    await tx.query(sql`insert into secret_holders (instance, newest, accepted, pepper)
      values (${instance}, ${accepted[0]}, ${accepted}, ${pepper})
      on conflict (instance) do update set newest = excluded.newest, accepted = excluded.accepted,
        pepper = excluded.pepper, seen_at = excluded.seen_at, ruled_out_at = null,
        started_at = case when secret_holders.newest = excluded.newest
          then secret_holders.started_at else excluded.started_at end`);
    await tx.query(sql`delete from secret_holders where instance in
      (select instance from secret_holders order by seen_at desc offset ${HOLDERS_KEPT})
      and instance <> ${instance}`);
  });
};

export interface InstallationSecrets {
  /** Throws Unavailable until Postgres has confirmed the pepper. */
  readonly pepper: () => string;
  readonly isConfirmed: () => boolean;
  /** Resolves when the pepper is confirmed; it never rejects. */
  readonly confirmed: Promise<void>;
}

const LONGEST_WAIT_MS = 5_000;

interface SecretsSettings {
  readonly instance: string;
  readonly keyring: Keyring;
  readonly log: Pick<Log, "warn">;
  readonly fail: (error: Error) => void;
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

/** Reports once a minute that this process is running, until the signal fires. */
const keepReporting = async (
  record: () => Promise<void>,
  clock: Clock,
  { log, signal }: Pick<SecretsSettings, "log" | "signal">,
): Promise<void> => {
  for (;;) {
    const isOver = await clock.sleep(REPORT_MS, signal).then(
      () => false,
      () => true,
    );
    if (isOver) return;
    await record().catch((error) => log.warn("secrets.not_reported", { error }));
  }
};

/**
 * Records the secrets once Postgres answers, and each minute from then on. A different pepper and
 * any other permanent error go to `fail`; no identifier has been hashed by then.
 */
export const openInstallationSecrets = (pool: pg.Pool, settings: SecretsSettings): InstallationSecrets => {
  const { instance, keyring, log, fail, signal, clock = systemClock } = settings;
  let isConfirmed = false;
  const record = (): Promise<void> => recordSecrets(pool, instance, keyring);
  const confirmed = new Promise<void>((resolve) => {
    retry(record, {
      deadlineMs: Number.POSITIVE_INFINITY,
      maxMs: LONGEST_WAIT_MS,
      signal,
      clock,
      beforeWait: (error, tries) => {
        if (tries === 1) log.warn("secrets.not_confirmed", { error });
      },
    }).then(
      () => {
        isConfirmed = true;
        resolve();
        void keepReporting(record, clock, settings);
      },
      (error: Error) => {
        if (!signal.aborted) fail(error);
      },
    );
  });
  return {
    confirmed,
    isConfirmed: () => isConfirmed,
    pepper: () => {
      if (isConfirmed) return keyring.pepper;
      throw new Unavailable("the secrets of the installation are not confirmed here yet", 1);
    },
  };
};

/** A secret that the installation has used, and a process with its secrets; all by fingerprint. */
export interface KnownSecret {
  readonly fingerprint: string;
  readonly is_pepper: boolean;
  readonly first_used_at: UnixMs;
}
export interface SecretHolder {
  readonly instance: string;
  readonly newest: string;
  readonly accepted: readonly string[];
  /**
   * The first start with this newest secret. Since then the process signs nothing with older
   * secrets.
   */
  readonly started_at: UnixMs;
  /** The time of its last report. */
  readonly seen_at: UnixMs;
  /** When an operator declared the process gone; null if it has reported since. */
  readonly ruled_out_at: UnixMs | null;
}

/** A process without a report for this long may be gone, or cannot reach Postgres. */
const SILENT_MS = 10 * 60_000;

export const isSilent = ({ seen_at, ruled_out_at }: SecretHolder, now: UnixMs): boolean =>
  ruled_out_at === null && now - seen_at > SILENT_MS;

/**
 * Excludes processes that a rotation need not wait for. A process that still runs counts again with
 * its next report. Returns the excluded ones; processes that are unknown or have reported lately
 * are left out.
 */
export const ruleOut = (pool: pg.Pool, instances: readonly string[]): Promise<readonly string[]> =>
  transaction(pool, null, async (tx) => {
    const { rows } = await tx.query<{ instance: string }>(sql`update secret_holders
      set ruled_out_at = clock_timestamp()
      where instance = any(${instances}) and ruled_out_at is null
        and seen_at < clock_timestamp() - ${SILENT_MS} * interval '1 millisecond'
      returning instance`);
    return rows.map(({ instance }) => instance).toSorted();
  });

export const knownSecrets = (
  pool: pg.Pool,
): Promise<{ readonly secrets: readonly KnownSecret[]; readonly holders: readonly SecretHolder[] }> =>
  transaction(
    pool,
    null,
    async (tx) => ({
      secrets: (
        await tx.query<KnownSecret>(
          "select fingerprint, is_pepper, first_used_at from installation_secrets order by first_used_at, fingerprint",
        )
      ).rows,
      holders: (
        await tx.query<SecretHolder>(
          "select instance, newest, accepted, started_at, seen_at, ruled_out_at from secret_holders order by instance",
        )
      ).rows,
    }),
    { isReadOnly: true },
  );
