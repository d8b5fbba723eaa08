package replica_test

import (
	"strings"
	"testing"
)

// TestParametersUnderSkew sends reads with parameters to a replica whose upstream is of
// another minor version, and to one whose upstream is not.
func TestParametersUnderSkew(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	same, skewed := setup{}.handler(t, u), setup{skewed: true}.handler(t, u)
	for query, alike := range map[string]bool{
		"": true, "limit=5&continue=x&labelSelector=a&fieldSelector=b": true, "watch=1&allowWatchBookmarks=1&sendInitialEvents=1": true,
		"resourceVersion=0&resourceVersionMatch=Exact&timeoutSeconds=1": true, "pretty=1&includeObject=None&timeout=1s": true,
		"watch=1&millraceBookmarkInterval=1s": true, "shardSelector=x": false, "limit=5&tomorrow=1": false,
	} {
		r := testRequest{"GET", pods + "?" + query, "", bearer("tom")}
		if got := r.to(same).Body.String(); got != "tier" {
			t.Errorf("%q without skew: an answer of %s", query, got)
		}
		if got := r.to(skewed).Body.String(); (got == "tier") != alike || !alike && !strings.HasPrefix(got, "upstream") {
			t.Errorf("%q under skew: an answer of %s; all versions read it alike: %t", query, got, alike)
		}
	}
}
