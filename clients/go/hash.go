// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"encoding/binary"
	"math/bits"
)

// The nodes spread messages over shards with XXH3 (64 bits). The client computes the same hash to
// find the owner of a message. Inputs are short here, so the form for long inputs is left out.

const hashMax = 240 // bytes; a longer key is sent to any node

// The first bytes of the secret that the specification of XXH3 has.
const hashSecret = "" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c" +
	"\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3" +
	"\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d" +
	"\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64" +
	"\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e"

const (
	prime64_1 = 0x9E3779B185EBCA87
	prime64_2 = 0xC2B2AE3D27D4EB4F
	prime64_3 = 0x165667B19E3779F9
	primeMix1 = 0x165667919E3779F9
	primeMix2 = 0x9FB21C651E98DF25
)

func secret64(at int) uint64 { return binary.LittleEndian.Uint64([]byte(hashSecret[at : at+8])) }

func foldedProduct(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func avalanche(h uint64) uint64 {
	h = (h ^ h>>37) * primeMix1
	return h ^ h>>32
}

// Mixes 16 bytes of the input with 16 bytes of the secret.
func mix16(in []byte, at int, seed uint64) uint64 {
	low, high := binary.LittleEndian.Uint64(in), binary.LittleEndian.Uint64(in[8:])
	return foldedProduct(low^(secret64(at)+seed), high^(secret64(at+8)-seed))
}

// hash64 returns the hash of 1 to hashMax bytes.
func hash64(in []byte, seed uint64) uint64 {
	n := len(in)
	length := uint64(n)
	switch {
	case n <= 3:
		word := uint64(in[0])<<16 | uint64(in[n>>1])<<24 | uint64(in[n-1]) | length<<8
		flip := uint64(uint32(secret64(0))^uint32(secret64(0)>>32)) + seed
		h := word ^ flip
		h = (h ^ h>>33) * prime64_2
		h = (h ^ h>>29) * prime64_3
		return h ^ h>>32
	case n <= 8:
		seed ^= uint64(bits.ReverseBytes32(uint32(seed))) << 32
		first, last := binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint32(in[n-4:])
		h := (uint64(last) + uint64(first)<<32) ^ ((secret64(8) ^ secret64(16)) - seed)
		h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
		h *= primeMix2
		h = (h ^ (h>>35 + length)) * primeMix2
		return h ^ h>>28
	case n <= 16:
		low := binary.LittleEndian.Uint64(in) ^ ((secret64(24) ^ secret64(32)) + seed)
		high := binary.LittleEndian.Uint64(in[n-8:]) ^ ((secret64(40) ^ secret64(48)) - seed)
		return avalanche(length + bits.ReverseBytes64(low) + high + foldedProduct(low, high))
	case n <= 128:
		h := length * prime64_1
		for i := (n - 1) / 32; i >= 0; i-- { // pairs of blocks, from the middle to both ends
			h += mix16(in[16*i:], 32*i, seed) + mix16(in[n-16*(i+1):], 32*i+16, seed)
		}
		return avalanche(h)
	}
	h := length * prime64_1
	for i := 0; i < 8; i++ {
		h += mix16(in[16*i:], 16*i, seed)
	}
	h = avalanche(h)
	for i := 8; i < n/16; i++ {
		h += mix16(in[16*i:], 16*(i-8)+3, seed)
	}
	return avalanche(h + mix16(in[n-16:], 136-17, seed))
}
