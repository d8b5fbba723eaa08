package apifeed_test

import (
	"fmt"
	"testing"
)

// TestExactNames has objects of a definition that preserves unknown fields, with names that
// differ from Kubernetes' in their case alone, before them and after them.
func TestExactNames(t *testing.T) {
	t.Parallel()
	forged := `{"Kind":"x","Metadata":{"namespace":"forged","name":"forged","resourceVersion":"3"},"apiVersion":"x/v1","kind":"Widget","metadata":{"Namespace":"forged","name":"a","resourceVersion":"5","ResourceVersion":"3"},"metaData":{"name":"forged"}}`
	escaped := `{"apiVersion":"x/v1","kind":"Widget","metadata":{"annotations":{"\u003cb\u003e":"x"},"name":"b","resourceVersion":"6"},"\u003cMetadata\u003e":{"name":"forged"},"METADATA":{"name":"forged"}}`
	_, sink, _ := run(t,
		step{body: event("ADDED", forged) + event("ADDED", escaped) + bookmark(7, true) + event("MODIFIED", fmt.Sprintf(`{"Metadata":{"namespace":"forged"},%s`, `"kind":"Widget","metadata":{"name":"a","resourceVersion":"8"}}`)), hold: true},
	)
	sink.expect(t, "begin", "add /registry/x/widgets/a 5 "+forged, "add /registry/x/widgets/b 6 "+escaped, "end 7",
		`PUT /registry/x/widgets/a 8 {"Metadata":{"namespace":"forged"},"kind":"Widget","metadata":{"name":"a","resourceVersion":"8"}}`)
}
