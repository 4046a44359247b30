// A request to the platform API, and its answer as JSON and as bytes.
export interface Asked {
  readonly method?: string;
  readonly token?: string | undefined;
  /** A text goes out as it is, everything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: any;
}

export const asker =
  (url: () => string) =>
  async (path: string, { method = "GET", token, body, headers = {} }: Asked = {}): Promise<Answer> => {
    const answer = await fetch(`${url()}${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    const isJson = /json/.test(answer.headers.get("content-type") ?? "");
    return { status: answer.status, headers: answer.headers, text, body: isJson ? JSON.parse(text) : null };
  };
