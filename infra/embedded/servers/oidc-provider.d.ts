// The part of oidc-provider that we use; the package brings no types.
declare module "oidc-provider" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  export interface TokenRequest {
    readonly oidc: {
      readonly params: Readonly<Record<string, string | undefined>>;
      readonly client: { readonly clientId: string };
    };
    body?: unknown;
  }

  export interface AccessToken {
    scope: string | undefined;
    resourceServer: unknown;
    readonly accountId: string;
    readonly expiration: number;
    readonly tokenType: string;
    readonly save: () => Promise<string>;
  }

  export default class Provider {
    constructor(issuer: string, configuration: Readonly<Record<string, unknown>>);
    readonly AccessToken: new (
      content: Readonly<Record<string, unknown>>,
    ) => AccessToken;
    readonly ResourceServer: new (
      identifier: string,
      info: Readonly<Record<string, unknown>>,
    ) => unknown;
    registerGrantType(name: string, run: (context: TokenRequest) => Promise<void>, parameters: readonly string[]): void;
    on(event: "server_error", listen: (context: unknown, error: Error) => void): this;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  }
  export namespace errors {
    class InvalidRequest extends Error {
      constructor(description: string);
    }
  }
}
