package watch

import (
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

func TestInForms(t *testing.T) {
	specs := []informerWorkload{{name: "watchlist-64", informers: 64}}
	all, err := expandForms(specs, []string{"protobuf-gzip", "json"})
	if err != nil || len(all) != 2 || all[0].name != "watchlist-64" || all[1].name != "watchlist-64-protobuf-gzip" || all[1].form.encoding != testbed.EncodingGzip {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := expandForms(specs, []string{"yaml"}); err == nil {
		t.Error("an unknown form was taken")
	}
}
