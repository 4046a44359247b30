// The visitor of the page: device, session, click and consent. They are read from the device and
// stored there as long as consent allows it.
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
/** Our click ids have 44 characters; the server checks the rest. */
const CLICK_ID = /^[\w-]{8,256}$/;
/** A stamp is kept this long, because reading a cookie asks another process of the browser. */
const STAMP_MS = 5_000;

const isOn = (value: unknown): boolean => value === true || value === "1" || value === "yes";
const signals = (): PrivacySignals => ({
  gpc: isOn((nav as any).globalPrivacyControl),
  dnt: isOn((nav as any).doNotTrack || (win as any).doNotTrack),
});

/** The part of each event that is about the visitor. */
interface Stamp {
  readonly did: string;
  readonly sid: string;
  readonly click: string | undefined;
  /** The visitor's own choice only; the server knows the default. */
  readonly consent: number | undefined;
  readonly gpc: boolean;
  readonly dnt: boolean;
}

export interface Visitor {
  readonly stamp: () => Stamp;
  /** Returns the mask in force from now on; undefined if `choice` was none. */
  readonly choose: (choice: unknown) => number | undefined;
  readonly configure: (config: Config | null) => void;
  readonly mayObserve: () => boolean;
  readonly mayStore: () => boolean;
  /** Whether all conditions of session replay hold for this session. */
  readonly mayReplay: (sid: string) => boolean;
  readonly replayTicket: () => string | undefined;
  /** Returns true once for each session that began on this page. */
  readonly isNewSession: () => boolean;
}

/** The mask that the visitor chose on this device; undefined without a choice. */
const storedChoice = (): number | undefined => {
  const [, mask] = /^(\d{1,3})\./.exec(remembered(CONSENT) || "") || [];
  return mask === undefined ? undefined : Number(mask) & 0xff;
};

/** The click of the address wins over that of the cookie, because it is newer. */
const clickNow = (days: number): string | undefined => {
  const [, found] = /[?&]svc_click_id=([\w-]*)/.exec(win.location.search) || [];
  const click = found && CLICK_ID.test(found) ? found : remembered(CID);
  if (click && click === found) remember(CID, click, days * DAY);
  return click && CLICK_ID.test(click) ? click : undefined;
};

/** The ids of device and session: each call keeps them alive, and makes a missing one. */
const openIds = () => {
  let isNew = false;
  return {
    renewed: (name: string, maxAge: number): string => {
      const known = remembered(name);
      isNew = isNew || (name === SID && !known);
      const value = known || randomId();
      remember(name, value, maxAge);
      return value;
    },
    isNewSession: () => {
      const was = isNew;
      isNew = false;
      return was;
    },
  };
};

/** The number of a session that decides whether it is recorded; hashed once for each session. */
const openDraw = (): ((sid: string) => number) => {
  let drawnFor = "";
  let draw = 0;
  return (sid) => {
    if (sid !== drawnFor) draw = drawOf(sha256(sid));
    drawnFor = sid;
    return draw;
  };
};

/** Keeps a stamp for some seconds as long as the address stays. */
const openStamps = (read: () => Stamp) => {
  let last: Stamp | undefined;
  let stampedAt = 0;
  let search = "";
  return {
    stamp: (): Stamp => {
      const now = Date.now();
      if (last && now - stampedAt < STAMP_MS && search === win.location.search) return last;
      stampedAt = now;
      search = win.location.search;
      last = read();
      return last;
    },
    stampAgain: () => {
      last = undefined;
    },
  };
};

export const openVisitor = (): Visitor => {
  const { renewed, isNewSession } = openIds();
  const drawFor = openDraw();
  let config: Config | null = null;
  let chosen = storedChoice();

  const settings = (): Config => config || DEFAULTS;
  const given = (): number => chosen ?? settings().consent_default;
  /** Nothing is kept on the device under a mask of 0, nor before the mask is known. */
  const mayStore = (): boolean => (chosen !== undefined || config !== null) && given() !== 0;
  /** Stores the values that this page has used so far on the device, or removes them from it. */
  const settle = (): void => {
    stampAgain();
    allowStorage(mayStore());
    if (given() === 0) [DID, SID].forEach(forget);
  };
  const { stamp, stampAgain } = openStamps((): Stamp => {
    const { gpc, dnt } = signals();
    const consent = chosen === undefined ? undefined : maskInForce(chosen, { gpc, dnt });
    const click = clickNow(settings().click_days);
    return { did: renewed(DID, YEAR), sid: renewed(SID, SESSION), click, consent, gpc, dnt };
  });
  settle();

  return {
    stamp,
    choose: (choice) => {
      const wanted = chosenMask(choice, given());
      if (wanted === undefined) return undefined;
      chosen = wanted;
      // A refusal may be remembered without consent.
      allowStorage(true);
      remember(CONSENT, `${wanted}.${Date.now()}`, YEAR);
      settle();
      return maskInForce(wanted, signals());
    },
    configure: (found) => {
      config = found;
      settle();
    },
    mayObserve: () => settings().auto_signals && (maskInForce(given(), signals()) & ANALYTICS) !== 0,
    mayStore,
    mayReplay: (sid) => {
      if (!config?.replay_enabled || (config.consent_replay && chosen === undefined)) return false;
      return (maskInForce(given(), signals()) & REPLAY) === REPLAY && drawFor(sid) < config.replay_sample_rate;
    },
    replayTicket: () => config?.replay_ticket,
    isNewSession,
  };
};
