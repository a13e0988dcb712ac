/** Whether a server that listens on this host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** The host name in a `Host` header, without port and brackets. */
export function hostnameOf(host: string): string {
  const [, address, name] = /^(?:\[(.+)\]|([^:]+))(?::\d+)?$/.exec(host) ?? [];
  return (address ?? name ?? "").toLowerCase();
}

/** Whether the remote address of a connection is this machine. */
export function isLoopbackAddress(address: string): boolean {
  // A dual-stack server sees IPv4 clients as ::ffff:127.0.0.1.
  return isLoopback(address.replace(/^::ffff:/i, ""));
}
