package replay

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// newRequest returns the HTTP request of a read. c is nil for a GET. ok is false if the request is
// for a further page of a list that has no more pages.
func (p *player) newRequest(ctx context.Context, r *request, c *collection) (req *http.Request, ok bool) {
	t, i := &p.plan.targets[r.target], &p.plan.instances[r.instance]
	query, ok := p.query(t, c)
	if !ok {
		return nil, false
	}
	address := p.server.base + t.path
	if query != "" {
		address += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		panic(err) // plans have only URIs that can be parsed
	}
	req.Header.Set("User-Agent", i.userAgent)
	req.Header.Set("Accept", accept(i.client.UserAgent, &t.shape, p.options.Encodings))
	if p.options.Impersonate {
		i.impersonate(req.Header)
	}
	return req, true
}

// query returns the query of a target with the resource version or the continue token that the
// instance knows. ok is false if it needs a token and has none.
func (p *player) query(t *target, c *collection) (query string, ok bool) {
	name := "resourceVersion"
	var value string
	switch t.revision {
	case serverreport.RevisionContinue:
		if c == nil || c.token == "" {
			return "", false
		}
		name, value = "continue", url.QueryEscape(c.token)
	case serverreport.RevisionAny:
		value = "0"
	case serverreport.RevisionAtLeast, serverreport.RevisionExact:
		revision := p.server.newest.Load()
		if c != nil && c.revision.Load() > 0 {
			revision = c.revision.Load()
		}
		value = strconv.FormatUint(revision, 10)
	default:
		return t.query, true
	}
	if t.query != "" {
		return t.query + "&" + name + "=" + value, true
	}
	return name + "=" + value, true
}

// accept returns the header Accept with which a program asks for objects of a shape.
func accept(program string, s *serverreport.Shape, encodings map[string]string) string {
	if s.Version == "" {
		return "application/json"
	}
	switch encoding, _ := useragent.Encoding(program, s.Verb, s.Resource, encodings); encoding {
	case price.Protobuf:
		return "application/vnd.kubernetes.protobuf,application/json"
	case price.Table:
		return "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	}
	return "application/json"
}

// impersonate sets headers for the instance's user, and for the pod that tells instances of a user
// apart. Kubelets need no pod: each node is a user of its own.
func (i *instance) impersonate(h http.Header) {
	if i.user == "" {
		return
	}
	h.Set("Impersonate-User", i.user)
	for _, group := range i.groups {
		h.Add("Impersonate-Group", group)
	}
	if i.client.User != auditlog.NodeUser && i.identity != "" {
		h.Set("Impersonate-Extra-Authentication.kubernetes.io%2fpod-name", i.identity)
	}
}
