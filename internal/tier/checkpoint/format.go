package checkpoint

import (
	"encoding/binary"
	"errors"

	"github.com/millrace/millrace/internal/feed"
)

// The reasons why a file is of no use, for errors.Is.
var (
	// ErrFormat: the file is no checkpoint, or one of another format.
	ErrFormat = errors.New("checkpoint has another format")
	// ErrSource: the objects come from another source, or in another form.
	ErrSource = errors.New("checkpoint is of another source")
	// ErrDamaged: the file is incomplete, or was changed.
	ErrDamaged = errors.New("checkpoint is damaged")
)

const (
	// magic begins a file. Its number changes with the format.
	magic = "millrace checkpoint 1\n"
	// blockBytes is the size from which a block is written. It is the size of a page of
	// etcd's objects, so that the cache decodes a block as it decodes a page.
	blockBytes = 4 << 20
	// maxBlockBytes bounds a block that is read, packed or not.
	maxBlockBytes = 64 << 20
	lengthBytes   = 4
	bufferBytes   = 1 << 20
)

// Header describes a checkpoint.
type Header struct {
	// Source says where the objects come from, and in which form.
	Source string `json:"source"`
	// Revision is the revision at which the source had the objects.
	Revision int64 `json:"revision"`
	// MissingPrefixes are the prefixes of resources that were left out.
	MissingPrefixes []string `json:"missing,omitempty"`
	// ChangedAt has, for the prefix of each resource, a revision after which no object of the
	// resource had changed.
	ChangedAt map[string]int64 `json:"changedAt,omitempty"`
	// Witness is the newest object. It is nil if there is none.
	Witness *Witness `json:"witness,omitempty"`
}

// Witness is the newest object of a checkpoint.
type Witness struct {
	Key      []byte `json:"key"`
	Revision int64  `json:"revision"`
	Value    []byte `json:"value"`
}

// appendObject appends an object to a block.
func appendObject(block []byte, prefix, key string, revision int64, value []byte) []byte {
	block = binary.AppendUvarint(block, uint64(len(prefix)+len(key)))
	block = append(append(block, prefix...), key...)
	block = binary.AppendUvarint(block, uint64(revision))
	block = binary.AppendUvarint(block, uint64(len(value)))
	return append(block, value...)
}

// readObjects returns copies of the objects of a block. None may have a revision above newest.
func readObjects(block []byte, newest int64) ([]feed.Object, error) {
	var objects []feed.Object
	for len(block) > 0 {
		var o feed.Object
		var ok bool
		if o.Key, block, ok = cutText(block); !ok {
			return nil, ErrDamaged
		}
		revision, n := binary.Uvarint(block)
		if n <= 0 || revision == 0 || revision > uint64(newest) {
			return nil, ErrDamaged
		}
		o.Revision = int64(revision)
		if o.Value, block, ok = cutText(block[n:]); !ok {
			return nil, ErrDamaged
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// cutText copies the first text of a block.
func cutText(block []byte) (text, rest []byte, ok bool) {
	length, n := binary.Uvarint(block)
	if n <= 0 || length > uint64(len(block)-n) {
		return nil, nil, false
	}
	end := n + int(length)
	return append([]byte(nil), block[n:end]...), block[end:], true
}
