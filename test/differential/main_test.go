// Package differential sends the same requests to both read paths over one
// etcd and compares the answers: Millrace's must be Kubernetes' own, byte for
// byte after decompression, with the same status and the same headers.
//
// The comparison is made at rest. Writers in the background are turned off or
// waited for; where etcd's revision moves under a request all the same, the
// request is repeated.
package differential

import (
	"testing"

	"github.com/millrace/millrace/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
