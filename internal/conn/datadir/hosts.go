package datadir

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// DefaultPort is the port in the kubeconfigs when Hosts names none.
const DefaultPort = 6443

// Hosts are the names and addresses by which clients reach the server. The zero value
// means https://127.0.0.1:6443.
type Hosts struct {
	// Host is the address in the kubeconfigs. An unspecified address, such as 0.0.0.0,
	// means the loopback address of its family. Empty means 127.0.0.1.
	Host string
	// Port is the port in the kubeconfigs. 0 means DefaultPort.
	Port int
	// ServiceIPs are the cluster addresses of the service "kubernetes": the first of
	// every service range.
	ServiceIPs []net.IP
	// Hostname is this machine's name. Empty means the system's.
	Hostname string
	// ExtraHosts are further names and addresses for the serving certificate.
	ExtraHosts []string
}

// endpoint is a complete and valid form of Hosts.
type endpoint struct {
	server   string // URL
	dnsNames []string
	ips      []net.IP
}

// resolve checks the hosts and fills in what they leave empty.
func (h Hosts) resolve() (endpoint, error) {
	host, err := h.serverHost()
	if err != nil {
		return endpoint{}, err
	}
	port := h.Port
	if port == 0 {
		port = DefaultPort
	}
	if port < 0 || port > 65535 {
		return endpoint{}, newFailure(ErrInvalidHosts, nil, "port %d is out of range: give one from 1 to 65535", port)
	}
	result := endpoint{server: "https://" + net.JoinHostPort(host, strconv.Itoa(port))}
	names := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		host,
	}
	for _, ip := range h.ServiceIPs {
		if ip.To16() == nil {
			return endpoint{}, newFailure(ErrInvalidHosts, nil, "service address of %d bytes is not an IP address: give one of 4 or 16 bytes", len(ip))
		}
		names = append(names, ip.String())
	}
	// A user cannot always change the machine's name. So a name that fits no certificate
	// is left out and not refused.
	hostname := h.Hostname
	if hostname == "" {
		hostname, _ = os.Hostname()
	}
	if isHost(hostname) {
		names = append(names, hostname)
	}
	for _, extra := range h.ExtraHosts {
		if !isHost(extra) {
			return endpoint{}, newFailure(ErrInvalidHosts, nil, "%q is not a host name or an IP address: give it without scheme and port", extra)
		}
		names = append(names, extra)
	}
	result.addNames(names)
	return result, nil
}

// serverHost returns the host in the kubeconfigs.
func (h Hosts) serverHost() (string, error) {
	if h.Host == "" {
		return "127.0.0.1", nil
	}
	if !isHost(h.Host) {
		return "", newFailure(ErrInvalidHosts, nil, "%q is not a host name or an IP address: give it without scheme and port", h.Host)
	}
	addr, err := netip.ParseAddr(h.Host)
	switch {
	case err != nil || !addr.IsUnspecified():
		return h.Host, nil
	case addr.Is4():
		return "127.0.0.1", nil
	}
	return "::1", nil
}

// addNames adds names to the DNS names or the addresses, without duplicates.
func (e *endpoint) addNames(names []string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		ip := net.ParseIP(name)
		if ip != nil {
			name = ip.String()
		} else {
			name = strings.ToLower(name)
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		if ip != nil {
			e.ips = append(e.ips, ip)
		} else {
			e.dnsNames = append(e.dnsNames, name)
		}
	}
}

// isHost reports whether a name is an IP address or a DNS name. It accepts a leading
// wildcard, and underscores, which occur in machine names.
func isHost(name string) bool {
	if net.ParseIP(name) != nil {
		return true
	}
	name = strings.TrimPrefix(name, "*.")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, hostCharacters) != "" {
			return false
		}
	}
	return true
}

// hostCharacters are the characters of labels of DNS names.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
