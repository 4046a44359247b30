// Shows the progress of a secret rotation, and the next step.
import type pg from "pg";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { sealedCounts } from "./client-secrets.ts";
import { fingerprintOf, isSilent, type KnownSecret, knownSecrets, type SecretHolder } from "./installation-secrets.ts";

export interface RotationFacts {
  readonly keyring: Keyring;
  readonly secrets: readonly KnownSecret[];
  readonly holders: readonly SecretHolder[];
  /** Numbers of stored values by the fingerprint that sealed them; null: plain text. */
  readonly sealed: ReadonlyMap<string | null, number>;
  /** The longest click window of any client, in days. */
  readonly longestWindowDays: number;
  readonly now: UnixMs;
}

/** A secret from the view of this command. */
export interface SecretUse {
  readonly fingerprint: string;
  readonly does: string;
  readonly first_used_at: UnixMs | null;
  readonly sealed: number;
  /** Processes that sign with the secret. */
  readonly signs_in: readonly string[];
  /** Signing processes that have not reported for ten minutes. */
  readonly silent: readonly string[];
}
type RotationStep = "put_back" | "restart" | "reseal" | "wait" | "retire" | "begin";
export interface Rotation {
  readonly secrets: readonly SecretUse[];
  readonly step: RotationStep;
  readonly next: string;
}

const DAY_MS = 86_400_000;
/** How long receipts are kept (docs/design/contracts.md, "Receipts"). */
const RECEIPT_DAYS = 32;

const RETIRE =
  "every click id of the old secret has run out: TRIBUTARY_SECRET=<new>,pepper:<the last of the list>, everywhere. " +
  "The last one stays as the pepper, for good";

/** Pure: the same facts give the same next step. */
export const rotationOf = (facts: RotationFacts): Rotation => ({ secrets: usesOf(facts), ...nextOf(facts) });

const usesOf = ({ keyring, secrets, holders, sealed, now }: RotationFacts): readonly SecretUse[] => {
  const [accepted, pepper] = [keyring.accepted.map(fingerprintOf), fingerprintOf(keyring.pepper)];
  const known = new Set([...accepted, pepper, ...secrets.map(({ fingerprint }) => fingerprint).reverse()]);
  return [...known].map((fingerprint) => {
    const using = holders.filter((holder) => holder.newest === fingerprint && holder.ruled_out_at === null);
    const does = [
      ...(fingerprint === accepted[0] ? ["signs, seals"] : accepted.includes(fingerprint) ? ["verifies"] : []),
      ...(fingerprint === pepper ? ["pepper"] : []),
    ];
    return {
      fingerprint,
      does: does.join(", ") || "retired",
      first_used_at: secrets.find((one) => one.fingerprint === fingerprint)?.first_used_at ?? null,
      sealed: sealed.get(fingerprint) ?? 0,
      signs_in: using.map(({ instance }) => instance),
      silent: using.filter((holder) => isSilent(holder, now)).map(({ instance }) => instance),
    };
  });
};

const nextOf = (facts: RotationFacts): Omit<Rotation, "secrets"> => {
  const { keyring, holders, sealed, longestWindowDays, now } = facts;
  const accepted = keyring.accepted.map(fingerprintOf);
  const [newest, isUnderWay] = [accepted[0]!, accepted.length > 1];
  const lost = [...sealed.keys()].filter((under) => under !== null && !accepted.includes(under));
  if (lost.length > 0)
    return {
      step: "put_back",
      next:
        `stored secrets are sealed under ${lost.join(", ")}, which TRIBUTARY_SECRET does not list: put that one ` +
        "back behind the first, then run: tributary secrets rotate --yes",
    };
  const behind = holders.filter((holder) => holder.newest !== newest && holder.ruled_out_at === null);
  if (isUnderWay && (behind.length > 0 || holders.length === 0)) return { step: "restart", next: restart(behind, now) };
  const unsealed = [...sealed].filter(([under]) => under !== newest).reduce((sum, [, count]) => sum + count, 0);
  if (unsealed > 0)
    return {
      step: "reseal",
      next: `${unsealed} stored secrets are not under ${newest}: tributary secrets rotate --yes`,
    };
  if (!isUnderWay)
    return {
      step: "begin",
      next:
        "nothing is under way. To begin, put a new secret in front of the list, everywhere: " +
        'TRIBUTARY_SECRET="$(openssl rand -base64 32),$TRIBUTARY_SECRET"',
    };
  // An excluded process may have signed with the old secret until its last report.
  const moved = Math.max(...holders.map((one) => (one.newest === newest ? one.started_at : one.seen_at)));
  const until = moved + Math.max(longestWindowDays, RECEIPT_DAYS) * DAY_MS;
  return now < until
    ? {
        step: "wait",
        next:
          `leave the old secret until ${new Date(until).toISOString().slice(0, 10)}, when the last click id that it ` +
          "signed has run out. If it has leaked, do not wait: see docs/runbooks/rotate-secrets.md",
      }
    : { step: "retire", next: RETIRE };
};

const restart = (behind: readonly SecretHolder[], now: UnixMs): string => {
  const silent = behind.filter((holder) => isSilent(holder, now)).map(({ instance }) => instance);
  const all = behind.map(({ instance }) => instance).join(", ") || "all";
  return (
    `give every process this list and restart it, workers first, edges last; still without it: ${all}` +
    (silent.length === 0
      ? ""
      : `. Not heard of for ten minutes: ${silent.join(", ")}; when you know that it runs no more: ` +
        `tributary secrets rule-out ${silent.join(" ")}`)
  );
};

/** Reads the facts and writes nothing. */
export const rotationFacts = async (pool: pg.Pool, keyring: Keyring, now: UnixMs): Promise<RotationFacts> => {
  const windows = await transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ days: number }>("select coalesce(max(click_window_days), 30) as days from clients")).rows,
    { role: "tributary_reference", isReadOnly: true },
  );
  return {
    keyring,
    ...(await knownSecrets(pool)),
    sealed: await sealedCounts(pool),
    longestWindowDays: windows[0]!.days,
    now,
  };
};
