// Package document keeps what the upstream answers to requests for discovery and OpenAPI.
package document
