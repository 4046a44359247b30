// Who is looking: device, session, click and consent, read from the device and kept there as long
// as consent allows.
import { drawOf } from "../../domain/recorded-share.ts";
import { ANALYTICS, chosenMask, maskInForce, type PrivacySignals, REPLAY } from "../data/consent.ts";
import { sha256 } from "../data/sha256.ts";
import { nav, randomId, win } from "../guard.ts";
import { type Config, DEFAULTS } from "./config.ts";
import { allowStorage, forget, remember, remembered } from "./storage.ts";

const DID = "_svc_did";
const SID = "_svc_sid";
const CID = "_svc_cid";
const CONSENT = "_svc_consent";
const DAY = 86_400;
const YEAR = 365 * DAY;
const SESSION = 1_800;
/** Ours have 44 characters; the server checks the rest. */
const CLICK_ID = /^[\w-]{8,256}$/;
/** Reading a cookie asks another process of the browser. */
const STAMP_MS = 5_000;

const isOn = (value: unknown): boolean => value === true || value === "1" || value === "yes";
const signals = (): PrivacySignals => ({
  gpc: isOn((nav as any).globalPrivacyControl),
  dnt: isOn((nav as any).doNotTrack || (win as any).doNotTrack),
});

/** What each event says of the visitor. */
interface Stamp {
  readonly did: string;
  readonly sid: string;
  readonly click: string | undefined;
  /** Only what the visitor has chosen: the server knows the default. */
  readonly consent: number | undefined;
  readonly gpc: boolean;
  readonly dnt: boolean;
}

export interface Visitor {
  readonly stamp: () => Stamp;
  /** The mask that holds from now on; undefined when there was no choice in it. */
  readonly choose: (choice: unknown) => number | undefined;
  readonly configure: (config: Config | null) => void;
  readonly mayObserve: () => boolean;
  readonly mayStore: () => boolean;
  /** All gates of session replay are open for this session. */
  readonly mayReplay: (sid: string) => boolean;
  /** True once for each session that began on this page. */
  readonly isNewSession: () => boolean;
}

export const openVisitor = (): Visitor => {
  let config: Config | null = null;
  let isNew = false;
  let stamp: Stamp | undefined;
  let stampedAt = 0;
  let search = "";
  let drawnFor = "";
  let draw = 0;
  const [, before] = /^(\d{1,3})\./.exec(remembered(CONSENT) || "") || [];
  let chosen = before === undefined ? undefined : Number(before) & 0xff;

  const given = (): number => chosen ?? (config || DEFAULTS).consent_default;
  /** With a mask of 0 nothing is kept on the device; until the mask is known, neither. */
  const mayStore = (): boolean => (chosen !== undefined || config !== null) && given() !== 0;
  const renewed = (name: string, maxAge: number): string => {
    const known = remembered(name);
    isNew = isNew || (name === SID && !known);
    const value = known || randomId();
    remember(name, value, maxAge);
    return value;
  };
  /** The click of the address wins over that of the cookie: it is newer. */
  const clickNow = (): string | undefined => {
    const [, found] = /[?&]svc_click_id=([\w-]*)/.exec(win.location.search) || [];
    const click = found && CLICK_ID.test(found) ? found : remembered(CID);
    if (click && click === found) remember(CID, click, (config || DEFAULTS).click_days * DAY);
    return click && CLICK_ID.test(click) ? click : undefined;
  };
  /** What the page has used so far goes to the device, or leaves it. */
  const settle = (): void => {
    stamp = undefined;
    allowStorage(mayStore());
    if (given() === 0) [DID, SID].forEach(forget);
  };
  settle();

  return {
    stamp: () => {
      const now = Date.now();
      if (stamp && now - stampedAt < STAMP_MS && search === win.location.search) return stamp;
      stampedAt = now;
      search = win.location.search;
      const { gpc, dnt } = signals();
      const consent = chosen === undefined ? undefined : maskInForce(chosen, { gpc, dnt });
      stamp = { did: renewed(DID, YEAR), sid: renewed(SID, SESSION), click: clickNow(), consent, gpc, dnt };
      return stamp;
    },
    choose: (choice) => {
      const wanted = chosenMask(choice, given());
      if (wanted === undefined) return undefined;
      chosen = wanted;
      // Remembering a refusal needs no consent.
      allowStorage(true);
      remember(CONSENT, `${wanted}.${Date.now()}`, YEAR);
      settle();
      return maskInForce(wanted, signals());
    },
    configure: (found) => {
      config = found;
      settle();
    },
    mayObserve: () => (config || DEFAULTS).auto_signals && (maskInForce(given(), signals()) & ANALYTICS) !== 0,
    mayStore,
    mayReplay: (sid) => {
      if (!config?.replay_enabled || (config.consent_replay && chosen === undefined)) return false;
      if (sid !== drawnFor) draw = drawOf(sha256(sid));
      drawnFor = sid;
      return (maskInForce(given(), signals()) & REPLAY) === REPLAY && draw < config.replay_sample_rate;
    },
    isNewSession: () => {
      const was = isNew;
      isNew = false;
      return was;
    },
  };
};
