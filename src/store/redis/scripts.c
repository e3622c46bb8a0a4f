// SPDX-License-Identifier: Apache-2.0
// The texts of the scripts. A script runs whole or not at all: its first write is the one that the
// server can refuse, and it passes that error on.
//
// An object is a string: "S1", its time in 14 digits, its bytes. A slot is an entry of a stream:
// its id is <slot>-0, its fields are t (time) and b (bytes). The hash beside a stream has the last
// slot and its time. They stay when slots are dropped, as the stream's last id does.
#include "store/redis/scripts.h"

#include "base/check.h"

#define TIME "local t=redis.call('TIME') local now=t[1]*1000+math.floor(t[2]/1000)\n"
#define NOW  TIME "local function n(x) return string.format('%.0f',x) end\n"
#define SLOT_OF                                                                                    \
    "local function slot(id) return tonumber(string.match(id,'^(%d+)-')) end\n"                    \
    "local function ours(e) return #e==4 and e[1]=='t' and e[3]=='b' end\n"                        \
    "local foreign={err='FOREIGN the stream has an entry that is not a slot'}\n"

// The most frequent script: the time is made into text once.
static const char append_text[] =
    TIME "local m=redis.pcall('HMGET',KEYS[2],'last','time') if m.err then return m end\n"
         "local last=m[1]\n"
         "if m[2] and tonumber(m[2])>now then now=tonumber(m[2]) end\n"
         "local at=string.format('%.0f',now)\n"
         "if not last then last='0'\n"
         "  local x=redis.pcall('XINFO','STREAM',KEYS[1])\n"
         "  if x.err then if not string.find(x.err,'no such key',1,true) then return x end\n"
         "  else for i=1,#x,2 do if x[i]=='last-generated-id' then\n"
         "    last=string.match(x[i+1],'^(%d+)-') end end end\n"
         "end\n"
         "if last~=ARGV[2] then\n"
         "  if tonumber(ARGV[1])<=tonumber(last) then return {'exists',at,last} end\n"
         "  return {'gap',at,last}\n"
         "end\n"
         "local r=redis.pcall('XADD',KEYS[1],ARGV[1]..'-0','t',at,'b',ARGV[3])\n"
         "if r.err then\n"
         "  if string.find(r.err,'equal or smaller',1,true) then return {'exists',at,last} end\n"
         "  return r end\n"
         "redis.call('HSET',KEYS[2],'last',ARGV[1],'time',at)\n"
         "return {'ok',at,ARGV[1]}\n";

// Reads in steps, so that the server handles little more than it answers.
static const char read_text[] =
    NOW SLOT_OF "local out,want,size,at,step={n(now)},tonumber(ARGV[2]),0,tonumber(ARGV[1]),1\n"
                "while #out<2000 do\n"
                "  local r=redis.pcall('XRANGE',KEYS[1],n(at)..'-0','+','COUNT',step)\n"
                "  if r.err then return r end\n"
                "  for i=1,#r do\n"
                "    local e=r[i][2] if not ours(e) then return foreign end\n"
                "    if slot(r[i][1])~=at then return out end\n"
                "    size=size+#e[4]\n"
                "    if #out>1 and size>want then return out end\n"
                "    out[#out+1]=e[2] out[#out+1]=e[4] at=at+1\n"
                "  end\n"
                "  if #r<step or size>=want then return out end\n"
                "  local mean=size*2/(#out-1)\n"
                "  step=math.max(1,math.min(step*4,128,math.floor((want-size)/(mean+1))))\n"
                "end\n"
                "return out\n";

static const char tail_text[] =
    NOW "local m=redis.pcall('HMGET',KEYS[2],'last','time') if m.err then return m end\n"
        "local first=redis.pcall('EXISTS',KEYS[1])\n"
        "if tonumber(m[2] or 0)>now then now=tonumber(m[2]) end\n"
        "return {n(now),m[1] or '0',first}\n";

// A row costs the server a copy of the slot: a call ends after some bytes.
static const char extents_text[] = NOW SLOT_OF
    "local out,at,rows,size={n(now),0},ARGV[1],tonumber(ARGV[2]),0\n"
    "while true do\n"
    "  local r=redis.pcall('XRANGE',KEYS[1],at..'-0','+','COUNT',16) if r.err then return r end\n"
    "  for i=1,#r do\n"
    "    local e=r[i][2] if not ours(e) then return foreign end\n"
    "    if #out>=rows*3+2 or size>4194304 then out[2]=1 return out end\n"
    "    size=size+#e[4]\n"
    "    out[#out+1]=n(slot(r[i][1])) out[#out+1]=#e[4] out[#out+1]=e[2]\n"
    "    at=n(slot(r[i][1])+1)\n"
    "  end\n"
    "  if #r<16 then return out end\n"
    "end\n";

static const char drop_text[] = NOW SLOT_OF
    "local r=redis.pcall('XRANGE',KEYS[1],'-','+','COUNT',1) if r.err then return r end\n"
    "if #r==0 then return {n(now)} end\n"
    "if slot(r[1][1])>=tonumber(ARGV[1]) then\n"
    "  local d=redis.pcall('XTRIM',KEYS[1],'MINID',ARGV[3]..'-0')\n"
    "  if type(d)=='table' and d.err then return d end\n"
    "  return {n(now)}\n"
    "end\n"
    "while true do\n"
    "  r=redis.pcall('XRANGE',KEYS[1],ARGV[1]..'-0',ARGV[2]..'-0','COUNT',16)\n"
    "  if r.err then return r end\n"
    "  if #r==0 then return {n(now)} end\n"
    "  local ids={} for i=1,#r do ids[i]=r[i][1] end\n"
    "  local d=redis.pcall('XDEL',KEYS[1],unpack(ids))\n"
    "  if type(d)=='table' and d.err then return d end\n"
    "end\n";

static const char put_text[] = NOW
    "local h=redis.pcall('GETRANGE',KEYS[1],0,15)\n"
    "if type(h)=='table' then return h end\n"
    "if h~='' or redis.call('EXISTS',KEYS[1])==1 then\n"
    "  if string.sub(h,1,2)~='S1' or #h<16 then\n"
    "    return {err='FOREIGN the key holds something that is not an object'} end\n"
    "  if ARGV[1]=='new' then return {'exists',n(now)} end\n"
    "  local before=tonumber(string.sub(h,3)) if before>now then now=before end\n"
    "else\n"
    "  for i=3,#KEYS do if redis.call('EXISTS',KEYS[i])==1 then return {'folder',n(now)} end end\n"
    "  local z=redis.pcall('ZRANGEBYLEX',KEYS[2],'['..ARGV[2]..'/','('..ARGV[2]..'0','LIMIT',0,1)\n"
    "  if z.err then return z end\n"
    "  if #z>0 then return {'folder',n(now)} end\n"
    "end\n"
    "local r=redis.pcall('SET',KEYS[1],'S1'..string.format('%014.0f',now)..ARGV[3])\n"
    "if r.err then return r end\n"
    "redis.call('ZADD',KEYS[2],0,ARGV[2])\n"
    "return {'ok',n(now)}\n";

static const char get_text[] =
    NOW "local h=redis.pcall('GETRANGE',KEYS[1],0,15)\n"
        "if type(h)=='table' then return h end\n"
        "if h=='' and redis.call('EXISTS',KEYS[1])==0 then return {n(now)} end\n"
        "if string.sub(h,1,2)~='S1' or #h<16 then\n"
        "  return {err='FOREIGN the key holds something that is not an object'} end\n"
        "local b='' if ARGV[1]~='' then b=redis.call('GETRANGE',KEYS[1],ARGV[1],ARGV[2]) end\n"
        "return {n(now),n(tonumber(string.sub(h,3))),b}\n";

static const char list_text[] =
    NOW "local out={n(now),0}\n"
        "local z=redis.pcall('ZRANGEBYLEX',KEYS[1],ARGV[2],ARGV[3],'LIMIT',0,ARGV[4])\n"
        "if z.err then return z end\n"
        "for i=1,#z do\n"
        "  local k=ARGV[1]..z[i] local h=redis.pcall('GETRANGE',k,0,15)\n"
        "  if type(h)=='table' and not string.find(h.err,'WRONGTYPE',1,true) then return h end\n"
        "  if h=='' then out[2]=out[2]+1 end\n"
        "  if type(h)=='string' and string.sub(h,1,2)=='S1' and #h==16 then\n"
        "    out[#out+1]=z[i] out[#out+1]=redis.call('STRLEN',k)-16\n"
        "    out[#out+1]=n(tonumber(string.sub(h,3))) end\n"
        "end\n"
        "return out\n";

static const char delete_text[] = NOW
    "for i=2,#KEYS do\n"
    "  local h=redis.pcall('GETRANGE',KEYS[i],0,15)\n"
    "  if type(h)=='string' and string.sub(h,1,2)=='S1' and #h==16 then\n"
    "    local d=redis.pcall('UNLINK',KEYS[i]) if type(d)=='table' and d.err then return d end\n"
    "  end\n"
    "  redis.call('ZREM',KEYS[1],ARGV[i-1])\n"
    "end\n"
    "return {n(now)}\n";

// Tries every command that the other scripts call. Returns the first that the user may not run.
static const char access_text[] =
    "local all={{'TIME'},{'SET',KEYS[1],'x'},{'GETRANGE',KEYS[1],0,1},{'STRLEN',KEYS[1]},\n"
    "{'EXISTS',KEYS[1]},{'ZADD',KEYS[2],0,'x'},{'ZRANGEBYLEX',KEYS[2],'-','+','LIMIT',0,1},\n"
    "{'ZREM',KEYS[2],'x'},{'HSET',KEYS[3],'x','y'},{'HMGET',KEYS[3],'x'},\n"
    "{'XADD',KEYS[4],'1-0','b','x'},{'XRANGE',KEYS[4],'-','+','COUNT',1},\n"
    "{'XINFO','STREAM',KEYS[4]},{'XDEL',KEYS[4],'1-0'},{'XTRIM',KEYS[4],'MINID','2-0'},\n"
    "{'UNLINK',KEYS[1],KEYS[2],KEYS[3],KEYS[4]}}\n"
    "for i=1,#all do local r=redis.pcall(unpack(all[i]))\n"
    "  if type(r)=='table' and r.err and (string.find(r.err,'NOPERM',1,true)\n"
    "    or string.find(r.err,'The user executing',1,true)) then return {all[i][1],r.err} end\n"
    "end\n"
    "return {}\n";

static const char *const texts[SCRIPTS] = {
    [SCRIPT_APPEND] = append_text,   [SCRIPT_READ] = read_text, [SCRIPT_TAIL] = tail_text,
    [SCRIPT_EXTENTS] = extents_text, [SCRIPT_DROP] = drop_text, [SCRIPT_PUT] = put_text,
    [SCRIPT_GET] = get_text,         [SCRIPT_LIST] = list_text, [SCRIPT_DELETE] = delete_text,
    [SCRIPT_ACCESS] = access_text,
};

const char *redis_script_text(enum redis_script s)
{
    CHECK(s < SCRIPTS && texts[s]);
    return texts[s];
}
