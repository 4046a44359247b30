// Gets a user token of the embedded identity provider without a browser, for `tributary login --as`
// and for tests.

/** A grant without a browser, for `tributary login --as`; it needs the secrets of the stack. */
export const DEMO_GRANT = "urn:tributary:demo-user";
export const CLI_CLIENT = "tributary-cli";

/**
 * An access token (JWT, 15 minutes) for the owner of `email`.
 * @param secret `login` of the stack's `secrets.json`.
 * @throws Error when the provider cannot be reached or refuses.
 */
export async function demoToken(issuer: string, secret: string, email: string): Promise<string> {
  const body = new URLSearchParams({ grant_type: DEMO_GRANT, client_id: CLI_CLIENT, client_secret: secret, email });
  const answer = await fetch(`${issuer}/token`, { method: "POST", body, signal: AbortSignal.timeout(5_000) });
  const content = (await answer.json()) as { access_token?: string; error_description?: string };
  if (content.access_token === undefined)
    throw new Error(`The identity provider gave no token for ${email}: ${content.error_description ?? answer.status}`);
  return content.access_token;
}
