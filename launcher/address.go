package launcher

import (
	"cmp"
	"context"
	"net"
	"os"
)

// ownAddress returns the address from which this machine reaches a host. If that host is this
// machine, others need another one: the address of the interface towards the internet.
func ownAddress(host string) string {
	ctx, cancel := context.WithTimeout(context.Background(), rayQuick)
	defer cancel()
	own := addressTowards(ctx, host)
	if ip := net.ParseIP(own); ip != nil && ip.IsLoopback() {
		if outside := addressTowards(ctx, "203.0.113.1"); net.ParseIP(outside) != nil {
			return outside
		}
	}
	return own
}

// addressTowards returns the address from which this machine reaches a host, or its own name if it
// does not know the host.
func addressTowards(ctx context.Context, host string) string {
	own, _ := os.Hostname()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(host, "9")) // sends nothing
	if err != nil {
		return own
	}
	defer conn.Close()
	address, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return cmp.Or(address, own)
}
