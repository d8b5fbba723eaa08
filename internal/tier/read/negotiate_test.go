package read_test

import (
	"net/http"
	"testing"

	"github.com/millrace/millrace/internal/tier/read"
)

// TestCodings sends many Accept-Encoding headers with all kinds of requests. The server may
// only use a coding that the header names and does not forbid. Watches use only gzip.
func TestCodings(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a", "one/large")
	off := newWatchServer(t, true, func(c *read.RouteConfig) { c.Shared.Compress = false })
	off.load(t, "one/a", "one/large")
	for _, c := range []struct{ accepted, answer, watch string }{
		{"gzip", "gzip", "gzip"},
		{"GZIP", "gzip", "gzip"},
		{"gzip;q=1.0,deflate;q=0.6,identity;q=0.3", "gzip", "gzip"},
		{"gzip, deflate, br, zstd", "zstd", "gzip"},
		{"zstd", "zstd", ""},
		{"zstd;q=0.5, gzip", "gzip", "gzip"},
		{"zstd, gzip;q=0", "zstd", ""},
		{"gzip;q=0", "", ""},
		{"gzip; q=0.0", "", ""},
		{"identity;q=1, gzip;q=0", "", ""},
		{"identity, gzip;q=0.5", "", ""},
		{"gzip, gzip;q=0", "", ""},
		{"gzip;q=0, *", "", ""},
		{"gzip;q=x", "", ""},
		{"*", "", ""},
		{"identity;q=0", "", ""},
		{"x-gzip", "", ""},
		{"notgzip", "", ""},
		{"br", "", ""},
		{"", "", ""},
	} {
		header := http.Header{"Accept-Encoding": {c.accepted}}
		for _, kind := range []struct {
			name, target, want string
			tier               *watchServer
		}{
			{"LIST", listPath, c.answer, env},
			{"LIST that selects", listOnePath + "?fieldSelector=metadata.name%3Dlarge", c.answer, env},
			{"LIST as a table", listPath + "?includeObject=Object", c.answer, env},
			{"short LIST", listPath + "?limit=1", "", env},
			{"GET", "/api/v1/namespaces/one/configmaps/large", c.answer, env},
			{"short GET", objectPath, "", env},
			{"LIST without compression", listPath, "", off},
			{"GET without compression", "/api/v1/namespaces/one/configmaps/large", "", off},
		} {
			if kind.name == "LIST as a table" {
				header = header.Clone()
				header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
			}
			answer := kind.tier.send(t, http.MethodGet, kind.target, header).Result()
			checkCoding(t, kind.name, c.accepted, answer, kind.want)
			header.Del("Accept")
		}
		s := env.watch(t, listPath+"?watch=1&resourceVersion=100", header)
		checkCoding(t, "WATCH", c.accepted, s.Response, c.watch)
		s.stop()
	}
}

// TestWatchCompression sends the watches that clients send, to servers with each value of
// the setting.
func TestWatchCompression(t *testing.T) {
	const initial = "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents="
	asked := http.Header{"Accept-Encoding": {"gzip"}, read.CompressWatchHeader: {"1"}}
	accepted := http.Header{"Accept-Encoding": {"gzip"}}
	refused := http.Header{"Accept-Encoding": {"identity"}, read.CompressWatchHeader: {"1"}}
	for setting, compressed := range map[read.WatchCompression][]bool{
		"":                            {false, false, false, false, false, false, false},
		read.CompressNoWatches:        {false, false, false, false, false, false, false},
		read.CompressRequestedWatches: {false, false, false, false, false, true, false},
		read.CompressWatchLists:       {true, false, false, true, false, true, false},
		read.CompressAllWatches:       {true, true, true, true, true, true, false},
	} {
		env := newWatchServer(t, true, func(c *read.RouteConfig) { c.Shared.CompressWatches = setting })
		env.load(t, "one/a")
		for i, request := range []struct {
			query  string
			header http.Header
		}{
			{initial + "true&allowWatchBookmarks=true", accepted},
			{initial + "true", accepted},
			{initial + "false&allowWatchBookmarks=true", accepted},
			// By Kubernetes' defaults, this is a watch-list.
			{"?watch=1&allowWatchBookmarks=true", accepted},
			{"?watch=1&allowWatchBookmarks=true&resourceVersion=100", accepted},
			{"?watch=1", asked},
			{"?watch=1", refused},
		} {
			want := ""
			if compressed[i] {
				want = "gzip"
			}
			s := env.watch(t, listPath+request.query, request.header)
			checkCoding(t, string(setting)+" WATCH "+request.query, "gzip", s.Response, want)
			s.stop()
		}
	}
}

func checkCoding(t *testing.T, kind, accepted string, answer *http.Response, want string) {
	t.Helper()
	vary := ""
	if want != "" {
		vary = "Accept-Encoding"
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != want || answer.Header.Get("Vary") != vary {
		t.Errorf("%s with %q: %d, header %v, want %q", kind, accepted, answer.StatusCode, answer.Header, want)
	}
}

func TestWatchCompressionIsAFlag(t *testing.T) {
	var c read.WatchCompression
	for _, value := range []string{"none", "requested", "watch-lists", "all"} {
		if err := c.Set(value); err != nil || c.String() != value {
			t.Errorf("%s: %q, %v", value, c, err)
		}
	}
	for _, value := range []string{"", "true", "false"} {
		if err := c.Set(value); err == nil || c != read.CompressAllWatches {
			t.Errorf("%q is taken: %q", value, c)
		}
	}
}
