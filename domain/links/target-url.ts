// Builds the address that a tracking link redirects to: the stored page, the visitor's own
// parameters, and the click id.

/**
 * The parameter of the click id. Names with our prefix are reserved, so a visitor's parameter of
 * that name is dropped.
 */
const CLICK_ID = "svc_click_id";
const RESERVED = /^_?svc_/i;
/** A browser's address is rarely longer. More parameters are not carried over. */
const MOST_QUERY = 4_096;

/**
 * The page's own query comes first, unchanged. The visitor's parameters follow, except reserved
 * names and names that the page already has. Null if the stored page is not an http(s) address.
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
