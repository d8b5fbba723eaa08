package openapi

import (
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// contentHash identifies content by what it is made from.
type contentHash struct{ hash.Hash }

func newContentHash(parts ...string) contentHash {
	h := contentHash{sha512.New()}
	for _, p := range parts {
		h.addText(p)
	}
	return h
}

func (h contentHash) addText(t string) {
	h.addNumber(uint64(len(t)))
	_, _ = h.Write([]byte(t)) // a hash never fails
}

func (h contentHash) addNumber(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:])
}

func (h contentHash) addDefinition(d *crd.Definition) {
	h.addText(d.Name)
	h.addNumber(d.Spec)
}

// sum64 returns a hash for places where a collision costs little.
func (h contentHash) sum64() uint64 { return binary.BigEndian.Uint64(h.Sum(nil)) }

// tag returns the hash as Kubernetes writes entity tags.
//
// Upstream: k8s.io/kube-openapi/pkg/handler3.computeETag; compare at each upgrade.
func (h contentHash) tag() string { return fmt.Sprintf("%X", h.Sum(nil)) }
