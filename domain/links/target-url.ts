// Where a tracking link sends its visitor: the stored page, with what the visitor's own parameters
// may add, and the click id.

/** Click ids travel in it; names that begin so are ours, whatever a visitor writes. */
const CLICK_ID = "svc_click_id";
const RESERVED = /^_?svc_/i;
/** A browser's address is seldom longer; more is carried over by no one on purpose. */
const MOST_QUERY = 4_096;

/**
 * The page's own query stays as it is and stands first; of the visitor's parameters those with a
 * name of its own and reserved ones are left out. Null for a page that is not on the web: nothing
 * else is redirected to, whatever was stored.
 */
export const targetUrl = (destination: string, query: string, clickId: string | null): string | null => {
  const url = URL.canParse(destination) ? new URL(destination) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return null;
  if (url.searchParams.has(CLICK_ID)) url.searchParams.delete(CLICK_ID);
  const added = query === "" || query.length > MOST_QUERY ? new URLSearchParams() : carriedOver(query, url);
  if (clickId !== null) added.append(CLICK_ID, clickId);
  const more = added.toString();
  if (more !== "") url.search = url.search === "" ? more : `${url.search}&${more}`;
  return url.href;
};

const carriedOver = (query: string, { searchParams }: URL): URLSearchParams => {
  const own = new Set(searchParams.keys());
  return new URLSearchParams(
    [...new URLSearchParams(query)].filter(([name]) => !own.has(name) && !RESERVED.test(name)),
  );
};
