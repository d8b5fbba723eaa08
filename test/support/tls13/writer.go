// Package tls13 encrypts a client's records of TLS 1.3 (RFC 8446) after crypto/tls has
// done the handshake. Tests use it to send what crypto/tls never sends: any number of
// requests to change keys.
//
// The config of the tls.Conn must have a Secrets as its KeyLogWriter. The caller must
// write nothing through the tls.Conn, neither before nor after NewWriter. The package
// does not read: the server's records arrive at the caller encrypted.
package tls13

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// MaxPlaintext is the largest content of a record, in bytes.
	MaxPlaintext = 16 << 10

	typeHandshake       = 22
	typeApplicationData = 23
	// keyUpdate is a KeyUpdate message that also asks the peer to change its keys (RFC
	// 8446, 4.6.3). It consists of type, length and update_requested.
	keyUpdate = "\x18\x00\x00\x01\x01"
)

// Secrets is the KeyLogWriter of one connection.
type Secrets struct{ bytes.Buffer }

// secret returns the secret that protects the client's first records.
func (s *Secrets) secret() ([]byte, error) {
	for line := range bytes.Lines(s.Bytes()) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "CLIENT_TRAFFIC_SECRET_0" {
			return hex.AppendDecode(nil, fields[2])
		}
	}
	return nil, errors.New("tls13: the key log has no secret of the client's records")
}

// Writer encrypts a client's records. The caller must send the records in the order in which it
// appended them.
type Writer struct {
	secret   []byte
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
}

// NewWriter returns a Writer for a connection whose handshake is complete.
func NewWriter(state tls.ConnectionState, secrets *Secrets) (*Writer, error) {
	if state.Version != tls.VersionTLS13 || state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		return nil, fmt.Errorf("tls13: the connection has %s and %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
	}
	secret, err := secrets.secret()
	if err != nil {
		return nil, err
	}
	w := &Writer{}
	return w, w.use(secret)
}

// use derives the keys of the next records from a secret (RFC 8446, 7.3).
func (w *Writer) use(secret []byte) error {
	key, err := expand(secret, "key", 16)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	w.secret, w.sequence = secret, 0
	if w.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	w.iv, err = expand(secret, "iv", w.aead.NonceSize())
	return err
}

// expand returns a key of length bytes: HKDF-Expand-Label without a context (RFC 8446, 7.1).
func expand(secret []byte, label string, length int) ([]byte, error) {
	const prefix = "tls13 "
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(info, byte(len(prefix)+len(label)))
	info = append(append(info, prefix+label...), 0)
	return hkdf.Expand(sha256.New, secret, string(info), length)
}

// AppendData appends a record with data, which has at most MaxPlaintext bytes.
func (w *Writer) AppendData(records, data []byte) []byte {
	return w.append(records, data, typeApplicationData)
}

// AppendKeyUpdate appends a request to change keys. Records after it use new keys.
func (w *Writer) AppendKeyUpdate(records []byte) ([]byte, error) {
	records = w.append(records, []byte(keyUpdate), typeHandshake)
	next, err := expand(w.secret, "traffic upd", sha256.Size)
	if err != nil {
		return nil, err
	}
	return records, w.use(next)
}

// append appends an encrypted record (RFC 8446, 5.2 and 5.3).
func (w *Writer) append(records, content []byte, kind byte) []byte {
	nonce := bytes.Clone(w.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, w.sequence) {
		nonce[len(nonce)-8+i] ^= b
	}
	w.sequence++
	plain := append(bytes.Clone(content), kind)
	header := []byte{typeApplicationData, 3, 3}
	header = binary.BigEndian.AppendUint16(header, uint16(len(plain)+w.aead.Overhead()))
	return w.aead.Seal(append(records, header...), nonce, plain, header)
}
