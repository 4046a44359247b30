// A request to the platform API, and its answer as JSON and as bytes.
export interface Asked {
  readonly method?: string;
  readonly token?: string | undefined;
  /** Texts and bytes are sent unchanged, everything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Breaks the request off. */
  readonly signal?: AbortSignal;
}
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: any;
}

export const asker =
  (url: () => string) =>
  async (path: string, { method = "GET", token, body, headers = {}, signal }: Asked = {}): Promise<Answer> => {
    const answer = await fetch(`${url()}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(signal && { signal }),
      ...(body !== undefined && {
        body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
    });
    const text = await answer.text();
    const isJson = /json/.test(answer.headers.get("content-type") ?? "");
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: isJson && text !== "" ? JSON.parse(text) : null,
    };
  };
