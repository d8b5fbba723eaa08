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

// Hosts says under which names and addresses the server is reached. The zero
// value stands for https://127.0.0.1:6443.
type Hosts struct {
	// Host is the address that the kubeconfigs lead to. Empty and the
	// unspecified addresses mean the loopback address of their family.
	Host string
	// Port is the port that the kubeconfigs lead to; 0 means DefaultPort.
	Port int
	// ServiceIPs are the cluster addresses of the service "kubernetes", the
	// first of every service range.
	ServiceIPs []net.IP
	// Hostname is this machine's name; empty means what the system says.
	Hostname string
	// ExtraHosts are further names and addresses for the serving certificate.
	ExtraHosts []string
}

// endpoint is Hosts made complete and checked.
type endpoint struct {
	server   string // URL
	dnsNames []string
	ips      []net.IP
}

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
		return endpoint{}, fail(ErrInvalidHosts, nil, "port %d is out of range: give one from 1 to 65535", port)
	}
	result := endpoint{server: "https://" + net.JoinHostPort(host, strconv.Itoa(port))}
	names := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		host,
	}
	for _, ip := range h.ServiceIPs {
		if ip.To16() == nil {
			return endpoint{}, fail(ErrInvalidHosts, nil, "service address of %d bytes is not an IP address: give one of 4 or 16 bytes", len(ip))
		}
		names = append(names, ip.String())
	}
	// The system's name is beyond the reach of whoever starts the server, so
	// one that fits no certificate is left out instead of refused.
	hostname := h.Hostname
	if hostname == "" {
		hostname, _ = os.Hostname()
	}
	if isHost(hostname) {
		names = append(names, hostname)
	}
	for _, extra := range h.ExtraHosts {
		if !isHost(extra) {
			return endpoint{}, fail(ErrInvalidHosts, nil, "%q is not a host name or an IP address: give it without scheme and port", extra)
		}
		names = append(names, extra)
	}
	result.addNames(names)
	return result, nil
}

func (h Hosts) serverHost() (string, error) {
	if h.Host == "" {
		return "127.0.0.1", nil
	}
	if !isHost(h.Host) {
		return "", fail(ErrInvalidHosts, nil, "%q is not a host name or an IP address: give it without scheme and port", h.Host)
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

// addNames sorts names into DNS names and addresses, each once.
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

// isHost accepts IP addresses and DNS names, with a leading wildcard and with
// underscores, which occur in machine names.
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

const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
