// The visitor of the page: device, session, click and consent. They are read from the device and
// stored there as long as consent allows it.
import { type Choice, CONSENT_VERSION, fullChoice, isFull, maskOf } from "../../domain/personal/choice.ts";
import { drawOf } from "../../domain/recorded-share.ts";
import { ANALYTICS, choiceAfter, maskInForce, type PrivacySignals, REPLAY } from "../data/consent.ts";
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
  /** The visitor's own choice only. The server resolves one that leaves bits to the default. */
  readonly consent: number | Choice | undefined;
  readonly gpc: boolean;
  readonly dnt: boolean;
}

export interface Visitor {
  readonly stamp: () => Stamp;
  /** Returns false if `choice` was none. */
  readonly choose: (choice: unknown) => boolean;
  /** Returns true if a choice of before has turned out to grant what was not named. */
  readonly configure: (config: Config | null) => boolean;
  /** Whether this visitor has chosen, and the mask that this page goes by. */
  readonly state: () => { readonly chosen: boolean; readonly mask: number };
  readonly mayObserve: () => boolean;
  readonly mayStore: () => boolean;
  /** Whether all conditions of session replay hold for this session. */
  readonly mayReplay: (sid: string) => boolean;
  readonly replayTicket: () => string | undefined;
  /** Returns true once for each session that began on this page. */
  readonly isNewSession: () => boolean;
}

/** No name of a choice grants it, so it tells that a mask was not made of names alone. */
const RESERVED = 0x80;

/**
 * The version of a choice. `ASKED_AGAIN`: one of before turned out to grant what was not named, so
 * only what it refused counts until the visitor chooses again. `UNSURE`: the configuration will
 * tell.
 */
const ASKED_AGAIN = 1;
const UNSURE = 0;
interface StoredChoice {
  readonly choice?: Choice;
  readonly version: number;
}
/**
 * What the visitor chose on this device: `<version>.<granted>.<refused>.<time>`. Before that it was
 * `<mask>.<time>`, where a mask that was made of names while the configuration was not known
 * granted every other bit.
 */
const storedChoice = (): StoredChoice => {
  const [a, b, c, time] = (remembered(CONSENT) || "").split(".").map(Number) as [number, number, number, number];
  if (time > 0) return { choice: { set: b & ~c & 0xff, clear: c & 0xff }, version: a };
  if (!(a <= 0xff && b > 0)) return { version: CONSENT_VERSION };
  return { choice: { set: a & RESERVED ? 0 : a, clear: ~a & 0xff }, version: a & RESERVED ? UNSURE : CONSENT_VERSION };
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

const UNSAID: Choice = { set: 0, clear: 0 };

export const openVisitor = (): Visitor => {
  const { renewed, isNewSession } = openIds();
  const drawFor = openDraw();
  let config: Config | null = null;
  let { choice: chosen, version } = storedChoice();

  const settings = (): Config => config || DEFAULTS;
  const given = (): number => maskOf(chosen || UNSAID, settings().consent_default);
  const inForce = (): number => maskInForce(given(), signals());
  /** False as long as bits are those of a default that is not known. */
  const isKnown = (): unknown => config || (chosen && isFull(chosen));
  /** Nothing is kept on the device under a mask of 0, nor before something is granted. */
  const mayStore = (): boolean => given() !== 0;
  /** Stores the values that this page has used so far on the device, or removes them from it. */
  const settle = (): void => {
    stampAgain();
    allowStorage(mayStore());
    if (isKnown() && !mayStore()) [DID, SID].forEach(forget);
  };
  const { stamp, stampAgain } = openStamps((): Stamp => {
    const { gpc, dnt } = signals();
    const consent = chosen && isKnown() ? inForce() : chosen;
    const click = clickNow(settings().click_days);
    return { did: renewed(DID, YEAR), sid: renewed(SID, SESSION), click, consent, gpc, dnt };
  });
  const keep = (choice: Choice, as: number): void => {
    chosen = choice;
    version = as;
    // A refusal may be remembered without consent.
    allowStorage(true);
    remember(CONSENT, `${as}.${choice.set}.${choice.clear}.${Date.now()}`, YEAR);
    settle();
  };
  settle();

  return {
    stamp,
    choose: (choice) => {
      const wanted = choiceAfter(choice, chosen);
      if (wanted) keep(wanted, CONSENT_VERSION);
      return !!wanted;
    },
    configure: (found) => {
      config = found;
      settle();
      if (version !== UNSURE || !chosen || !config) return false;
      const { clear } = chosen;
      // Where the client grants by default what was granted, the choice stands.
      const isSame = (clear | config.consent_default) === 0xff;
      keep(isSame ? fullChoice(~clear & 0xff) : chosen, isSame ? CONSENT_VERSION : ASKED_AGAIN);
      return !isSame;
    },
    state: () => ({
      chosen: !!chosen && version === CONSENT_VERSION,
      mask: inForce(),
    }),
    mayObserve: () => settings().auto_signals && (inForce() & ANALYTICS) !== 0,
    mayStore,
    mayReplay: (sid) => {
      if (!config?.replay_enabled || (config.consent_replay && !((chosen || UNSAID).set & 0x10))) return false;
      return (inForce() & REPLAY) === REPLAY && drawFor(sid) < config.replay_sample_rate;
    },
    replayTicket: () => config?.replay_ticket,
    isNewSession,
  };
};
