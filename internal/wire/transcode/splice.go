package transcode

import "google.golang.org/protobuf/encoding/protowire"

// metadataRevision is the protobuf number of an object's resourceVersion in its metadata.
const metadataRevision protowire.Number = 6

// splice is a stored object in protobuf, in parts between which its resourceVersion is
// inserted.
type splice struct {
	// before and after are the object's metadata around the resourceVersion. rest is the
	// object after its metadata.
	before, after, rest []byte
	revision            []byte
}

// splice splits an object that was walked, in which each field is stored.
func (t *Transcoder) splice(content, revision []byte) splice {
	metadata, end := payload(content, 1)
	s := splice{revision: revision}
	if !t.kind.partial {
		s.rest = content[end:]
	}
	for i := 0; i < len(metadata); {
		tag, n := varint(metadata, i)
		length, after := varint(metadata, n)
		if tag&7 == lengthDelimited {
			after += int(length)
		}
		if tag>>3 == uint64(metadataRevision) {
			s.before, s.after = metadata[:i], metadata[after:]
			break
		}
		i = after
	}
	return s
}

// metadataSize returns the size of the new metadata.
func (s *splice) metadataSize() int {
	return len(s.before) + protowire.SizeTag(metadataRevision) + protowire.SizeBytes(len(s.revision)) + len(s.after)
}

// size returns the size of the new object.
func (s *splice) size() int { return 1 + protowire.SizeBytes(s.metadataSize()) + len(s.rest) }

// append appends the new object.
func (s *splice) append(dst []byte) []byte {
	dst = append(dst, metadataTag)
	dst = protowire.AppendVarint(dst, uint64(s.metadataSize()))
	dst = append(dst, s.before...)
	dst = protowire.AppendTag(dst, metadataRevision, protowire.BytesType)
	dst = protowire.AppendBytes(dst, s.revision)
	dst = append(dst, s.after...)
	return append(dst, s.rest...)
}

// itemsTag begins an object in a list's items.
const itemsTag = 2<<3 | lengthDelimited

// spliceSize returns the size of an object with what the target has around it.
func (t *Transcoder) spliceSize(s *splice) int {
	size := protowire.SizeBytes(s.size())
	if t.target == ItemProtobuf {
		return 1 + size
	}
	return len(t.kind.sentHead) + size + len(unknownTail)
}

// appendSplice appends an object with what the target has around it.
func (t *Transcoder) appendSplice(dst []byte, s *splice) []byte {
	if t.target == ItemProtobuf {
		dst = protowire.AppendVarint(append(dst, itemsTag), uint64(s.size()))
		return s.append(dst)
	}
	dst = protowire.AppendVarint(append(dst, t.kind.sentHead...), uint64(s.size()))
	return append(s.append(dst), unknownTail...)
}
