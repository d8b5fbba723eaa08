package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// frontProxyPrefix begins the headers by which front proxies name users at most API servers.
// The Proxy writes such headers, and Check finds out whether the upstream takes them.
const frontProxyPrefix = "X-Remote-"

// FrontProxyHeaders are the headers by which an API server lets front proxies name users, as it
// publishes them. The zero value stands for a server that publishes none.
type FrontProxyHeaders struct {
	// names, and uidsAndGroups, are canonical names of headers. prefixes begin the names of
	// headers with other attributes.
	names, uidsAndGroups, prefixes []string
}

// readFrontProxyHeaders reads what an API server publishes.
func readFrontProxyHeaders(published *corev1.ConfigMap) (h FrontProxyHeaders, err error) {
	for key, names := range map[string]*[]string{
		"requestheader-username-headers": &h.names, "requestheader-uid-headers": &h.uidsAndGroups,
		"requestheader-group-headers": &h.uidsAndGroups, "requestheader-extra-headers-prefix": &h.prefixes,
	} {
		text := published.Data[key]
		if text == "" {
			continue
		}
		var found []string
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return FrontProxyHeaders{}, fmt.Errorf("read %s of the upstream: %w", key, err)
		}
		for _, name := range found {
			*names = append(*names, http.CanonicalHeaderKey(name))
		}
	}
	return h, nil
}

// Has reports whether a header is in h, or begins with frontProxyPrefix. name is canonical.
func (h FrontProxyHeaders) Has(name string) bool {
	return strings.HasPrefix(name, frontProxyPrefix) || slices.Contains(h.names, name) || slices.Contains(h.uidsAndGroups, name) ||
		slices.ContainsFunc(h.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Check returns an error unless the Proxy can name users by these headers.
func (h FrontProxyHeaders) Check() error {
	const instead = ": leave --proxy-client-cert-file out, so that this replica impersonates users"
	if !slices.Contains(h.names, frontProxyPrefix+"User") {
		// The upstream would take the proxy's certificate for the certificate of the user.
		return errors.New("the upstream lets no front proxy name users in the header " + frontProxyPrefix + "User" + instead)
	}
	for _, name := range slices.Concat(h.names, h.uidsAndGroups, h.prefixes) {
		if !strings.HasPrefix(name, frontProxyPrefix) {
			return fmt.Errorf("the upstream takes users of a front proxy from the header %q, and this replica knows only those that begin with %s%s", name, frontProxyPrefix, instead)
		}
	}
	return nil
}

// publishedTimeout bounds the question what an API server publishes.
const publishedTimeout = 10 * time.Second

// readFrontProxy reads by which headers front proxies name users. While that cannot be read, the
// last answer stays.
func (u *Upstream) readFrontProxy() {
	ctx, cancel := context.WithTimeout(context.Background(), publishedTimeout)
	defer cancel()
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	var newest FrontProxyHeaders
	if err == nil {
		newest, err = readFrontProxyHeaders(published)
	}
	if err != nil {
		u.cfg.Logger.Warn("Cannot read how the upstream trusts front proxies; the last answer stays", "err", err)
		return
	}
	before := u.frontProxy.Swap(&newest)
	if before != nil && before.Check() == nil && newest.Check() != nil {
		u.cfg.Logger.Warn("The upstream trusts front proxies in another way than at the start: a certificate of --proxy-client-cert-file is no longer used", "reason", newest.Check())
	}
}

// FrontProxy returns by which headers the upstream lets front proxies name users, as of the
// newest Read that could tell. Before the first such Read it returns the zero value. It is a
// ProxyConfig.FrontProxy.
func (u *Upstream) FrontProxy() FrontProxyHeaders {
	if known := u.frontProxy.Load(); known != nil {
		return *known
	}
	return FrontProxyHeaders{}
}
