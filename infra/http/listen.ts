// Opens the port, plain or TLS 1.3, with time limits on slow senders, and closes it without
// dropping a request that is being answered.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { piecesOfBody } from "./body-bounds.ts";
import { senderOf } from "./sender.ts";
import { httpServer, type TlsFiles } from "./tls.ts";

export interface ListenSettings {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls?: TlsFiles;
}
export interface ListeningServer {
  readonly port: number;
  /** Takes no new connections, answers the requests under way, then resolves. */
  readonly close: () => Promise<void>;
}

// 25 MiB within a minute is 3.5 Mbit/s; a sender of one byte a second is cut off.
const REQUEST_MS = 60_000;
/** The limit of a request for which `mayLast` was called: 5 GiB within an hour is 12 Mbit/s. */
const LONGEST_MS = 3_600_000;
const HEADERS_MS = 10_000;
// Longer than the 60 s of the usual load balancers, so that they end an idle connection and not we.
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16_384;
/** How often Node looks for requests that are late; its default is 30 s. */
const LOOK_MS = 2_000;
/** An idle connection takes about 15 KiB, so 75 MiB; a load balancer needs a few hundred. */
const MAX_CONNECTIONS = 5_000;
/**
 * A fifth of them, so that no single sender, who may leave all of them idle, takes every place.
 */
const MAX_OF_ADDRESS = 1_000;
/**
 * The most requests that a connection may send without waiting for answers: the parser hands over
 * all that it has read in one turn of the loop, up to 2,000 in 64 KiB.
 */
const MAX_PIPELINED = 32;
/** Time for the sender to read the answer, before a connection without a valid request is cut. */
const GRACE_MS = 1_000;
/**
 * The most connections that are ended in one turn of the loop, about 10 ms: connections that came
 * together are late together.
 */
const ENDED_AT_ONCE = 100;
/** How often connections without a request are cut while the port closes. */
const CUT_MS = 200;

const lasting = new WeakSet<IncomingMessage>();
/** Gives a request an hour instead of a minute to arrive. Its reader must bound its silence. */
export const mayLast = (request: IncomingMessage): void => void lasting.add(request);

export const listen = async (answer: RequestListener, settings: ListenSettings): Promise<ListeningServer> => {
  const limits = {
    requestTimeout: LONGEST_MS,
    headersTimeout: HEADERS_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    connectionsCheckingInterval: LOOK_MS,
  };
  let isClosing = false;
  const { began, ended, refuse } = refusals();
  const listener: RequestListener = (request, response) => {
    if (isClosing) response.setHeader("Connection", "close");
    const connection = connections.began(request);
    const taken = began(request, response);
    // The event is emitted once; `once` would cost a wrapper around the listener.
    response.on("close", () => {
      connections.ended(connection);
      if (taken !== undefined) ended(taken, request, response);
    });
    if (taken !== undefined) answer(request, response);
  };
  const server = httpServer(limits, listener, settings.tls);
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", shares());
  const connections = openConnections(server);
  const looking = setInterval(() => {
    for (const socket of connections.late()) refuse(socket);
  }, LOOK_MS).unref();
  server.on("clientError", (_error, socket) => refuse(socket as Socket));
  // A sender may end its side once it has sent everything; it is still answered.
  (server as typeof server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  // An Expect header does not change our answer.
  server.on("checkExpectation", listener);
  await new Promise<void>((resolve, reject) =>
    server.once("error", reject).listen(settings.port, settings.host, resolve),
  );
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      isClosing = true;
      return closed(server, connections.cutIdle).finally(() => clearInterval(looking));
    },
  };
};

/** Takes no new connections, and resolves once every request under way is answered. */
const closed = (server: Server, cutIdle: () => void): Promise<void> =>
  new Promise((resolve) => {
    const cutting = setInterval(cutIdle, CUT_MS);
    server.close(() => {
      clearInterval(cutting);
      resolve();
    });
    server.closeIdleConnections();
  });

interface Connection {
  readonly socket: Socket;
  requests: number;
  since: number;
  /** The only request whose body may still be arriving, and since when. */
  newest: IncomingMessage | undefined;
  newestSince: number;
}

/**
 * Node does not count a connection without any request as idle, and a connection that is answered
 * while the port closes stays open: closing would wait for both as long as the other side likes.
 * With TLS, requests have another socket than the port, with the same peer.
 */
const openConnections = (server: Server) => {
  const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;
  const open = new Map<string, Connection>();
  /** Connections by the socket of their requests. */
  const known = new WeakMap<Socket, Connection>();
  server.on("connection", (socket: Socket) => {
    const peer = peerOf(socket);
    open.set(peer, { socket, requests: 0, since: performance.now(), newest: undefined, newestSince: 0 });
    socket.once("close", () => open.delete(peer));
  });
  return {
    began: (request: IncomingMessage): Connection | undefined => {
      const { socket } = request;
      const connection = known.get(socket) ?? open.get(peerOf(socket));
      if (connection === undefined) return undefined;
      known.set(socket, connection);
      connection.requests += 1;
      connection.newest = request;
      connection.newestSince = performance.now();
      return connection;
    },
    /** The sockets of requests that have not arrived completely in time. */
    late: function* (): Generator<Socket, void> {
      const before = performance.now() - REQUEST_MS;
      for (const { newest, newestSince } of open.values())
        if (newest !== undefined && newestSince < before && !newest.complete && !lasting.has(newest))
          yield newest.socket;
    },
    ended: (connection: Connection | undefined): void => {
      if (connection === undefined) return;
      connection.requests -= 1;
      connection.since = performance.now();
      // If it were kept until the next request, it would keep everything that this request held.
      if (connection.newest?.complete === true) connection.newest = undefined;
    },
    /**
     * Cuts connections that have had no request for a second. On younger ones a request may be on
     * its way.
     */
    cutIdle: (): void => {
      for (const { socket, requests, since } of open.values())
        if (requests === 0 && performance.now() - since > GRACE_MS) socket.destroySoon();
    },
  };
};

/** Cuts a connection if its address has too many. */
const shares = () => {
  const held = new Map<string, number>();
  return (socket: Socket): void => {
    const address = senderOf(socket.remoteAddress ?? "");
    const count = (held.get(address) ?? 0) + 1;
    if (count > MAX_OF_ADDRESS) return void socket.destroy();
    held.set(address, count);
    socket.once("close", () => {
      const left = held.get(address)! - 1;
      if (left > 0) held.set(address, left);
      else held.delete(address);
    });
  };
};

/**
 * Reads and drops the rest of a body that continues after its answer, so that its sender can read
 * the answer. Cuts bodies in tiny pieces, which are sent to cost CPU.
 */
const boundRest = (request: IncomingMessage): void => {
  if (request.complete) return;
  const isTooSmall = piecesOfBody();
  request.on("data", (piece: Buffer) => {
    if (isTooSmall(piece.length)) request.socket.destroy();
  });
  // Otherwise Node drops the body without any event.
  request.read(0);
};

const BODY = JSON.stringify({
  type: "urn:tributary:problem:bad_request",
  title: "The request cannot be understood",
  status: 400,
  detail: "this is not an HTTP request that can be answered",
  code: "bad_request",
});

const BAD_REQUEST =
  "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: " +
  `${Buffer.byteLength(BODY)}\r\nConnection: close\r\n\r\n${BODY}`;

/** The requests of one connection. */
interface ConnectionState {
  readonly underWay: Map<ServerResponse, IncomingMessage>;
  /**
   * The last text of a connection that accepts no more requests; undefined while it accepts them.
   */
  last: string | undefined;
}

/**
 * Bytes that are not an HTTP request, or not a whole one in time, never reach a route. They are
 * answered, and the connection is cut, because its other side may never end it. Whole requests
 * before them on the connection are answered first: their events may be stored.
 */
const refusals = () => {
  const known = new WeakMap<Socket, ConnectionState>();
  const of = (socket: Socket): ConnectionState => {
    const found = known.get(socket);
    if (found !== undefined) return found;
    const made: ConnectionState = { underWay: new Map(), last: undefined };
    known.set(socket, made);
    return made;
  };
  const endOnceAnswered = (socket: Socket): void => {
    const { underWay, last } = of(socket);
    if ([...underWay.values()].some(({ complete }) => complete)) return;
    if (!socket.writable) return void socket.destroy();
    setTimeout(() => socket.destroy(), GRACE_MS).unref();
    socket.end(last ?? "");
  };
  const ending: Socket[] = [];
  const endSome = (): void => {
    for (const socket of ending.splice(0, ENDED_AT_ONCE)) endOnceAnswered(socket);
    if (ending.length > 0) setImmediate(endSome);
  };
  const end = (socket: Socket, saying: string): void => {
    const answering = of(socket);
    if (answering.last !== undefined) return;
    answering.last = saying;
    if (ending.push(socket) === 1) setImmediate(endSome);
  };
  return {
    /**
     * Undefined for a request that is not answered because too many are before it. Its sender sees
     * the connection end after the earlier answers, and sends the request again on another one.
     */
    began: (request: IncomingMessage, response: ServerResponse): ConnectionState | undefined => {
      const { socket } = request;
      const answering = of(socket);
      if (answering.underWay.size >= MAX_PIPELINED) end(socket, "");
      if (answering.last !== undefined) return undefined;
      answering.underWay.set(response, request);
      if (request.headers["transfer-encoding"] !== undefined)
        response.prependOnceListener("finish", () => boundRest(request));
      return answering;
    },
    ended: (answering: ConnectionState, { socket }: IncomingMessage, response: ServerResponse): void => {
      answering.underWay.delete(response);
      if (answering.last !== undefined) endOnceAnswered(socket);
    },
    refuse: (socket: Socket): void => end(socket, BAD_REQUEST),
  };
};
