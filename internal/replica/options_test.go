package replica_test

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/replica"
)

// TestFrontProxyFlags refuses flags with which a replica would vouch for what a client has written.
func TestFrontProxyFlags(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--authentication-skip-lookup", "--authentication-skip-lookup"},
		{"--requestheader-client-ca-file=ca.crt --requestheader-username-headers=X-User", "X-User"},
		{"--requestheader-client-ca-file=ca.crt --requestheader-group-headers=X-Remote-Group,X-Group", "X-Group"},
		{"--requestheader-client-ca-file=ca.crt --requestheader-extra-headers-prefix=X-Extra-", "X-Extra-"},
	} {
		o := replica.NewOptions(program.NewOptions())
		set := pflag.NewFlagSet("replica", pflag.ContinueOnError)
		o.AddFlags(set)
		args := append(strings.Fields(c.flags), "--kubeconfig=k", "--proxy-client-cert-file=c", "--proxy-client-key-file=k")
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := replica.New(o, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--proxy-client-cert-file") {
			t.Errorf("%s: %v", c.flags, err)
		}
	}
}
