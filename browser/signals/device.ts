// Reports device and connection as the browser names them, once a session, and a coarse fingerprint
// of them without canvas, audio or fonts.
import { sha256 } from "../data/sha256.ts";
import { nav, win } from "../guard.ts";
import type { Tracker } from "../tracker.ts";

export const startDevice = (tracker: Tracker): void => {
  const look = (): void => {
    if (tracker.visitor.mayObserve() && tracker.visitor.isNewSession()) tracker.signal("environment", environment());
  };
  look();
  tracker.onPage(look);
};

const environment = (): Record<string, unknown> => {
  const { connection, deviceMemory } = nav as any;
  const { screen } = win;
  const language = nav.language;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const size = `${screen.width}x${screen.height}`;
  const matches = (query: string): boolean => win.matchMedia(query).matches;
  const coarse = [
    nav.userAgent.replace(/[\d._]+/g, ""),
    language,
    (nav.languages ?? []).join(),
    zone,
    size,
    screen.colorDepth,
    win.devicePixelRatio,
    nav.hardwareConcurrency,
    deviceMemory,
    nav.maxTouchPoints,
    nav.platform,
    new Date(2_026, 0, 1).getTimezoneOffset(),
  ];
  return {
    language,
    languages: (nav.languages ?? []).slice(0, 5).join(),
    time_zone: zone,
    utc_offset_min: -new Date().getTimezoneOffset(),
    screen: size,
    viewport: `${win.innerWidth}x${win.innerHeight}`,
    pixel_ratio: win.devicePixelRatio,
    color_depth: screen.colorDepth,
    connection: connection?.effectiveType,
    downlink_mbit: connection?.downlink,
    saves_data: connection?.saveData,
    memory_gb: deviceMemory,
    cores: nav.hardwareConcurrency,
    touch_points: nav.maxTouchPoints,
    is_dark: matches("(prefers-color-scheme: dark)"),
    less_motion: matches("(prefers-reduced-motion: reduce)"),
    fingerprint: sha256(coarse.join("|")),
  };
};
