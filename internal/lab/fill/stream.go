package fill

import (
	"encoding/base64"
	"encoding/hex"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The purposes of a stream. The numbers enter every stream: changing one changes
// all objects of its kind, for every seed.
const (
	drawNamespace uint64 = iota + 1
	drawServiceAccount
	drawNode
	drawConfigMap
	drawSecret
	drawPod
	drawWorkload
	drawText
	drawEnv
	drawImage
	drawSchema
	drawCustomObject
	drawDeployment
	drawService
	drawEndpointSlice
	drawLease
	drawEvent
	drawProfile
	drawPadding
)

// stream is a SplitMix64 generator of pseudo-random numbers. They depend only on
// seed, purpose and index, so that each object can be generated on its own. We do
// not use math/rand, whose numbers may differ between Go releases. A stream is not
// fit for real secrets.
type stream struct{ state uint64 }

// newStream returns the stream of object index for a purpose.
func newStream(seed, purpose uint64, index int) stream {
	return stream{splitMix64(splitMix64(splitMix64(seed)+purpose) + uint64(index))}
}

func splitMix64(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// next returns the next 64 random bits.
func (s *stream) next() uint64 {
	v := splitMix64(s.state)
	s.state += 0x9E3779B97F4A7C15
	return v
}

// intBelow returns a random number from 0 to n-1.
func (s *stream) intBelow(n int) int { return int(s.next() % uint64(n)) }

// fill overwrites b with random bytes.
func (s *stream) fill(b []byte) {
	for len(b) > 0 {
		v := s.next()
		for i := 0; i < 8 && len(b) > 0; i++ {
			b[0] = byte(v)
			b = b[1:]
			v >>= 8
		}
	}
}

// base64 returns random bytes as base64: a multiple of 4 characters, at most n, but at least 4.
func (s *stream) base64(n int) string {
	raw := make([]byte, max(1, n/4)*3)
	s.fill(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// hex returns n hexadecimal digits; n is even and at most 64.
func (s *stream) hex(n int) string {
	var raw [32]byte
	var text [64]byte
	s.fill(raw[:n/2])
	hex.Encode(text[:], raw[:n/2])
	return string(text[:n])
}

// uid returns a random (version 4) UUID.
func (s *stream) uid() types.UID {
	var raw [16]byte
	var text [36]byte
	s.fill(raw[:])
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	hex.Encode(text[0:8], raw[0:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:36], raw[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return types.UID(text[:])
}

// instant returns a random time within the given number of days before day, with a
// resolution of one second. day counts from a fixed date, so that two runs with one
// seed agree.
func (s *stream) instant(day, days int) metav1.Time {
	const base = 1767225600 // 2026-01-01T00:00:00Z
	const secondsPerDay = 24 * 60 * 60
	at := base + int64(day)*secondsPerDay - int64(s.intBelow(days*secondsPerDay))
	return metav1.NewTime(time.Unix(at, 0).UTC())
}

func later(t metav1.Time, d time.Duration) metav1.Time { return metav1.NewTime(t.Add(d)) }
