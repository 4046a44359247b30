// Connections of a hostile sender, which stay half-open after the server has ended its side.
import { connect, type Socket } from "node:net";

export const openHalf = async (port: number): Promise<Socket> => {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
};

/** The answer, and the ms until the server cut the connection. */
export const untilCut = (socket: Socket): Promise<{ readonly answer: string; readonly ms: number }> =>
  new Promise((resolve) => {
    const began = performance.now();
    let answer = "";
    socket.on("data", (chunk) => (answer += chunk));
    // The server sends nothing more. That it has cut the connection only shows when it refuses
    // bytes.
    socket.once("end", () => {
      const poke = setInterval(() => socket.write("x"), 100);
      socket.once("close", () => clearInterval(poke));
    });
    socket.once("close", () => resolve({ answer, ms: performance.now() - began }));
  });
