// Package crd serves custom resources, and keeps the conditions of their definitions, in
// place of Kubernetes' apiextensions server. It exists because that server keeps every
// definition decoded and compiled, with a cache for each version, which takes gigabytes
// for some thousand definitions.
//
//	event log of definitions ─► Catalog ─► handlers: Server, controller, Registration,
//	                            (rows)     package discovery, package openapi
//
//	request ─► handler ─► servedDefinition ─┬─► version: storage, route, no schemas
//	           or route   (lifecycle.go)    ├─► compiledSlot: compiledSchemas ─┐ compiled-
//	                                        ├─► compiledSlot: writerSet ───────┘ Cache
//	                                        └─► webhookConverter ─► conversionCache
//
// A row of the Catalog (Definition) has the facts about a definition that are needed of
// all definitions. It is read out of the stored bytes without decoding them. The definition
// itself stays in the byte cache, and is decoded when it is needed (Catalog.Full). The
// codec knows how Kubernetes writes definitions (definitioncodec.Codec).
//
// A servedDefinition is the state by which a definition is served. It has a storage for
// each version that was asked for, which holds no schema. Schemas, validators and rules are
// compiled when they are first needed, and shared by all requests. They are dropped when
// they are idle or take too much memory (compiledCache). Watches live on the storages: they
// hold nothing that is compiled, and do not end when it is dropped. As in Kubernetes they
// end when the definition's spec or accepted names change.
//
// Objects that a conversion webhook has to convert go to it in reviews of many objects
// (webhookConverter). Converted objects are kept until the object or its definition changes,
// as far as they fit (conversionCache). Decoding at a version finds them there.
//
// Routes of this package answer the creation of definitions and the controller's writes of
// their status (definitionWrites). Writes of the status work on definitions without schemas
// (definitioncodec.OutlineCodec). Kubernetes' routes answer all other writes of definitions.
//
// Schemas, strategies and request handlers are Kubernetes' own, so answers are, too.
//
// The caller must give New a configuration whose storage comes from storage.Decorator. It
// must run the generic server, whose post-start hooks start the goroutines, or call
// Server.Follow if it only reads. The goroutines end with their context. The package is not
// for built-in resources, nor for discovery and OpenAPI.
package crd
