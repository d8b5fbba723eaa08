// Package differential sends the same requests to both read paths over one etcd
// and compares the answers. Millrace's answers must be Kubernetes' own: byte
// for byte after decompression, with the same status and the same headers.
//
// Most comparisons need an etcd that does not change. The tests turn background
// writers off or wait for them to end. If etcd's revision moves during a
// request all the same, the request is repeated.
package differential

import (
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
